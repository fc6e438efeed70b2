#include "tessera/command.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "tessera/format.h"

namespace tessera {
namespace {

constexpr uint64_t kBarWidth = 24;

}  // namespace

void Session::add_options(CLI::App& app) {
  app.add_flag("--json", json_, "print one JSON object instead of text");
  app.add_flag("-q,--quiet", quiet_, "no progress and no notes on stderr");
  app.add_flag("--no-color", no_color_, "no colours (also: NO_COLOR)");
  app.add_option("--log-level", log_level_, "what to log to stderr")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  app.parse_complete_callback([this] { start_logging(); });
}

void Session::start_logging() const {
  auto logger = std::make_shared<spdlog::logger>("tessera",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::from_str(log_level_ == "error" ? "err" : log_level_));
  logger->set_pattern("%H:%M:%S.%e %l: %v");
  spdlog::set_default_logger(std::move(logger));
}

void Session::throw_if_stopped() const {
  if (stop_.stop_requested()) {
    throw Error(ErrorCode::kCancelled,
                "interrupted - you asked for a stop - run the command again to go on");
  }
}

void Session::print(std::string_view text) const {
  const size_t n_written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (n_written == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw OutputClosed{};
  throw Error(ErrorCode::kIo, fmt::format("cannot write the output - {} - send it elsewhere",
                                          std::strerror(errno)));
}

void Session::print_json(const nlohmann::json& object) const {
  // Names and texts of users may hold any bytes; a bad one must not cost the whole object.
  using nlohmann::json;
  print(object.dump(-1, ' ', false, json::error_handler_t::replace) + '\n');
}

void Session::note(std::string_view line) const {
  if (!quiet_) fmt::print(stderr, "{}\n", line);
}

std::string Session::paint(Color color, std::string_view text) const {
  const char* no_color = std::getenv("NO_COLOR");
  const bool is_wanted = !no_color_ && (no_color == nullptr || *no_color == '\0');
  if (!is_wanted || isatty(STDOUT_FILENO) == 0) return std::string(text);
  const int code = color == Color::kGreen ? 32 : color == Color::kYellow ? 33 : 31;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

ProgressBar::ProgressBar(const Session& session, std::string label, uint64_t total, Unit unit)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      is_on_(!session.quiet()),
      is_terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_drawn_(start_) {}

ProgressBar::~ProgressBar() {
  if (is_terminal_ && was_drawn_) std::fputs("\n", stderr);
}

void ProgressBar::update(uint64_t done, std::string_view detail) {
  if (!is_on_) return;
  if (!first_done_) first_done_ = done;
  const Clock::time_point now = Clock::now();
  const auto interval = is_terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  const bool is_end = is_terminal_ && total_ != 0 && done >= total_;
  const bool is_first = is_terminal_ && !was_drawn_;
  if (now - last_drawn_ < interval && !is_end && !is_first) return;
  last_drawn_ = now;
  was_drawn_ = true;

  std::string line = label_;
  if (is_terminal_ && total_ != 0) {
    const size_t n_full = static_cast<size_t>(kBarWidth * std::min(done, total_) / total_);
    line += fmt::format(" [{:=<{}}{:{}}]", "", n_full, "", kBarWidth - n_full);
  }
  line += status_text(done, std::chrono::duration<double>(now - start_).count());
  if (!detail.empty()) line += fmt::format("  {}", detail);
  // The escape clears what a longer line before has left.
  fmt::print(stderr, "{}{}{}", is_terminal_ ? "\r" : "", line, is_terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
}

std::string ProgressBar::status_text(uint64_t done, double elapsed_s) const {
  const auto amount = [this](uint64_t n) {
    return unit_ == Unit::kBytes ? human_bytes(n) : human_count(n);
  };
  std::string text;
  if (total_ == 0) return "  " + amount(done);
  text += fmt::format(" {:3.0f}%  {}/{}", 100.0 * std::min(done, total_) / total_, amount(done),
                      amount(total_));
  const uint64_t fresh = done - std::min(done, first_done_.value_or(0));
  if (fresh == 0 || elapsed_s < 0.5) return text;
  const double per_second = static_cast<double>(fresh) / elapsed_s;
  if (unit_ == Unit::kBytes) {
    text += fmt::format("  {}/s", human_bytes(static_cast<uint64_t>(per_second)));
  }
  if (done < total_) {
    text +=
        fmt::format("  ETA {}", human_duration(static_cast<double>(total_ - done) / per_second));
  }
  return text;
}

}  // namespace tessera
