#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/build_info.h"
#include "tessera/command.h"

namespace tessera {
namespace {

void run(const Session& session) {
  const BuildInfo info = build_info();
  if (session.json()) {
    session.print_json({{"version", info.version},
                        {"commit", info.commit},
                        {"ggml", info.ggml},
                        {"compiler", info.compiler},
                        {"build_type", info.build_type},
                        {"cpu", info.cpu},
                        {"cpu_flags", info.cpu_flags}});
    return;
  }
  session.print(fmt::format("tessera {} ({})\nggml     {}\ncompiler {}, {}\ncpu      {}: {}\n",
                            info.version, info.commit, info.ggml, info.compiler, info.build_type,
                            info.cpu, fmt::join(info.cpu_flags, " ")));
}

}  // namespace

void add_version(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("version", "version, commit, ggml and CPU");
  command->callback([&session] { run(session); });
}

}  // namespace tessera
