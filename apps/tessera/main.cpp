// The program: a table of subcommands, and the one place where failures become messages and exit
// statuses.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text_util.h"
#include "tessera/build_info.h"
#include "tessera/command.h"
#include "tessera/interrupt.h"

namespace tessera {

// One row a subcommand, in the order of --help. Each lives in cmd_NAME.cpp.
using AddCommand = void(CLI::App&, Session&);
AddCommand add_demo, add_index, add_ask, add_gate, add_eval, add_report, add_analyze, add_tune,
    add_bench, add_model, add_cache, add_doctor, add_version;
constexpr AddCommand* kCommands[] = {
    add_demo, add_index, add_ask,   add_gate,  add_eval,   add_report,  add_analyze,
    add_tune, add_bench, add_model, add_cache, add_doctor, add_version,
};

namespace {

// libgomp reads OMP_WAIT_POLICY before main. Without it, a thread that waits for another one spins,
// and where a core is busy with something else a single token can then cost seconds. So set it and
// start again; the variable itself keeps the second start from doing so once more.
void settle_openmp(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("OMP_WAIT_POLICY", "passive", 0) != 0) return;
  std::error_code error;
  // The path rather than /proc/self/exe, which would show up as "exe" in the process list.
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  execv(program.c_str(), argv);
  // When the system refuses, going on slower is better than not at all.
}

enum class NumberKind { kSigned, kUnsigned, kFloat };

std::optional<NumberKind> number_kind(std::string_view type_name) {
  if (type_name.starts_with("UINT")) return NumberKind::kUnsigned;
  if (type_name.starts_with("INT")) return NumberKind::kSigned;
  if (type_name.starts_with("FLOAT")) return NumberKind::kFloat;
  return std::nullopt;
}

// The nearest number stands for one that does not fit: a double becomes infinite, and a whole one
// is cut to 64 bits, as no range says.
bool fits(NumberKind kind, const std::string& text) {
  if (kind == NumberKind::kFloat) return std::isfinite(std::strtod(text.c_str(), nullptr));
  errno = 0;
  if (kind == NumberKind::kUnsigned) {
    std::strtoull(text.c_str(), nullptr, 10);
  } else {
    std::strtoll(text.c_str(), nullptr, 10);
  }
  return errno != ERANGE;
}

// To CLI11 "" is 0, "-1" the largest unsigned number, and NaN, with which no comparison holds, is
// within every range.
void check_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const std::optional<NumberKind> kind = number_kind(type);
    if (!kind) continue;
    const bool may_be_negative = *kind != NumberKind::kUnsigned && !type.ends_with("NONNEGATIVE");
    // As a transform it comes before those that read a number.
    option->transform(CLI::Validator(
        [kind = *kind, may_be_negative](std::string& text) -> std::string {
          if (text.empty()) return "the value is empty - a number is wanted";
          if (!may_be_negative && text.starts_with('-'))
            return quote(text) + " is negative - it must not be";
          if (!fits(kind, text))
            return quote(text) + " is not finite or does not fit - give a number within the range";
          return {};
        },
        ""));
  }
  for (CLI::App* sub : app.get_subcommands({})) check_numbers(*sub);
}

struct Failure {
  ExitStatus status;
  std::string_view code;  // for --json
};

Failure failure_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidRequest:
      return {kExitUsage, "invalid_request"};
    case ErrorCode::kNotFound:
      return {kExitNotFound, "not_found"};
    case ErrorCode::kModel:
      return {kExitModel, "model"};
    case ErrorCode::kCancelled:
      return {kExitInterrupted, "cancelled"};
    case ErrorCode::kIo:
      return {kExitFailed, "io"};
    case ErrorCode::kOverloaded:
      return {kExitFailed, "overloaded"};
  }
  return {kExitFailed, "internal"};
}

ExitStatus report(const Session& session, bool as_json, Failure failure,
                  const std::string& message) {
  fmt::print(stderr, "error: {}\n", message);
  if (as_json) {
    session.print_json({{"error",
                         {{"message", message},
                          {"code", failure.code},
                          {"exit_status", static_cast<int>(failure.status)}}}});
  }
  return failure.status;
}

// The innermost subcommand that was named: what was typed wrongly is looked up there and above.
const CLI::App* innermost(const CLI::App& app) {
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) current = current->get_subcommands().front();
  return current;
}

std::string command_line_of(const CLI::App* app) {
  std::string line = app->get_name();
  while ((app = app->get_parent()) != nullptr) line.insert(0, app->get_name() + " ");
  return line;
}

// Names that could stand where `word` stands.
std::vector<std::string> names_known(const CLI::App* app, std::string_view word) {
  std::vector<std::string> known;
  if (!word.starts_with('-')) {
    for (const CLI::App* sub : app->get_subcommands({})) known.push_back(sub->get_name());
    return known;
  }
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  return known;
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* current = innermost(app);
  std::string message = error.what();
  const std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const std::vector<std::string> known = names_known(current, word);
    const std::vector<std::string_view> views(known.begin(), known.end());
    const bool is_option = word.starts_with('-');
    const std::string near = closest_name(word, views);
    message = fmt::format("unknown {} {}",
                          is_option       ? "option"
                          : known.empty() ? "argument"
                                          : "command",
                          quote(word));
    if (!near.empty()) message += fmt::format(" - did you mean {}?", quote(near));
  }
  return fmt::format("{} - see '{} --help'", message, command_line_of(current));
}

// Whether --json was asked for, also when the command line could not be parsed.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* arg) { return std::string_view(arg) == "--json"; });
}

ExitStatus run(CLI::App& app, Session& session, int argc, char** argv) {
  const bool as_json = wants_json(argc, argv);
  try {
    if (argc == 1) {
      fmt::print(stderr, "{}", app.help());
      return kExitUsage;
    }
    app.parse(argc, argv);
    const bool was_stopped = session.stop_token().stop_requested();
    return was_stopped && session.exit_status() == kExitOk ? kExitInterrupted
                                                           : session.exit_status();
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report(session, as_json, {kExitUsage, "usage"}, usage_message(app, error));
  } catch (const Error& error) {
    return report(session, as_json, failure_of(error.code()), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return report(session, as_json, failure_of(ErrorCode::kIo), error.what());
  } catch (const std::bad_alloc&) {
    return report(session, as_json, failure_of(ErrorCode::kOverloaded),
                  "out of memory - the system gave no more - take a smaller model or context");
  }
}

int tessera_main(int argc, char** argv) {
  // A reader that leaves is seen where stdout is written (OutputClosed), not as a deadly signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a write that fails, as a full disk is
  try {
    settle_openmp(argv);
    const Interrupt interrupt;
    Session session(interrupt.token());
    CLI::App app(
        "Answers questions over your documents with a local model, reusing what it read before.",
        "tessera");
    app.fallthrough();  // global options may stand behind a subcommand too
    app.require_subcommand(1);
    app.set_version_flag("--version", build_info().version);
    app.footer(
        "Exit status: 0 ok, 1 failed, 2 usage, 3 model or configuration, 4 not found, 130 "
        "interrupted.");
    session.add_options(app);
    for (AddCommand* add : kCommands) add(app, session);
    check_numbers(app);
    return run(app, session, argc, argv);
  } catch (const OutputClosed&) {
    return kExitOk;
  } catch (const std::exception&
               error) {  // nobody's plan: a bug, or not even an error report could be written
    std::fprintf(stderr, "error: %s\n", error.what());
    return kExitFailed;
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::tessera_main(argc, argv); }
