#pragma once
// What every subcommand shares: global options, output, progress and the wish to stop.
//
// A subcommand is one file cmd_NAME.cpp with `void add_NAME(CLI::App& app, Session& session)`,
// which adds its parser to `app` and sets the callback that does the work, plus its row in
// main.cpp. The conventions, kept by main and Session for all of them:
// - results go to stdout, everything else to stderr; with --json stdout carries exactly one JSON
// object;
// - failures are thrown as Error("what - why - what to do"), and main turns them into a message and
// an exit status;
// - work that takes long looks at `stop_token()` and keeps what is finished.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace tessera {

// API.md section 4.
enum ExitStatus {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitModel = 3,
  kExitNotFound = 4,
  kExitInterrupted = 130,
};

// Thrown by the print functions when the reader of stdout has gone away, as in `tessera ... |
// head`. Nobody is left to tell, so main ends without a word.
struct OutputClosed {};

// Used by the thread that runs the command only; the stop token may be handed on.
class Session {
 public:
  explicit Session(std::stop_token stop) : stop_(std::move(stop)) {}

  // Adds --json, --quiet, --log-level and --no-color, which are also understood behind a
  // subcommand.
  void add_options(CLI::App& app);

  bool json() const { return json_; }
  bool quiet() const { return quiet_; }

  std::stop_token stop_token() const { return stop_; }
  // Throws Error(kCancelled) once a stop was asked for.
  void throw_if_stopped() const;

  // Text to stdout, as it is, at once. Throws OutputClosed, or Error(kIo) when it cannot be written
  // (disk full).
  void print(std::string_view text) const;
  // The result of a command under --json: one object on one line.
  void print_json(const nlohmann::json& object) const;
  // One line to stderr, unless --quiet.
  void note(std::string_view line) const;

  enum class Color { kGreen, kYellow, kRed };
  // `text` in colour when stdout is a terminal that wants it, else as it is.
  std::string paint(Color color, std::string_view text) const;

  // The status to exit with when the command ended without an Error but has bad news.
  void set_exit_status(ExitStatus status) { status_ = status; }
  ExitStatus exit_status() const { return status_; }

 private:
  void start_logging() const;

  std::stop_token stop_;
  bool json_ = false;
  bool quiet_ = false;
  bool no_color_ = false;
  std::string log_level_ = "warn";
  ExitStatus status_ = kExitOk;
};

// Progress of one piece of work on stderr: a bar where stderr is a terminal, one line in ten
// seconds where it is not, nothing under --quiet. Not thread-safe.
class ProgressBar {
 public:
  enum class Unit { kBytes, kItems };

  // `total` 0: not known.
  ProgressBar(const Session& session, std::string label, uint64_t total, Unit unit);
  ~ProgressBar();  // ends the line of the bar
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // May be called as often as one likes: the screen is touched ten times a second at most.
  void update(uint64_t done, std::string_view detail = {});

 private:
  using Clock = std::chrono::steady_clock;
  std::string status_text(uint64_t done, double elapsed_s) const;

  std::string label_;
  uint64_t total_;
  Unit unit_;
  bool is_on_;
  bool is_terminal_;
  bool was_drawn_ = false;
  std::optional<uint64_t> first_done_;  // a resumed download starts in the middle
  Clock::time_point start_;
  Clock::time_point last_drawn_;
};

}  // namespace tessera
