#pragma once
// The command-line options of a stream of questions over one corpus, for every command that asks
// one, and what is done with them before it runs.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/trace.h"
#include "tessera/command.h"
#include "tessera/model_profile.h"
#include "tessera/workspace.h"

namespace tessera {

struct TraceCommand {
  std::string model = kDefaultModel;
  LoadingOptions loading;
  std::vector<std::string> files;
  std::string corpus;
  std::vector<std::string> configs;  // empty: those of the command
  std::string anchor = "leadin";
  std::string store = "warm";
  std::string warm_dir;
  PolicyOptions policy_options;
  GivenOptions given;
  bool has_ram_tier = false;  // it was given
  TraceOptions trace;
};

// All that such commands share; --top-k is the command's own. `defaults` are named in the help of
// --configs.
void add_trace_options(CLI::App& app, TraceCommand& o, const std::string& defaults);

// Behind parsing by `app`, which has those options: fills `o.trace` but for its folder, finds the
// model, and says in notes which settings are used and which were never tuned. Throws
// Error(kInvalidRequest) for slips, and what resolve_model() throws; the model is not loaded.
void complete_trace(const Session& session, const CLI::App& app,
                    std::span<const std::string> configs, TraceCommand& o);

// What is run, for records of it; behind complete_trace().
nlohmann::ordered_json trace_header(const TraceCommand& o);

}  // namespace tessera
