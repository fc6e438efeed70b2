#pragma once
// A child process without a shell. Thread-safe, but the environment must not change meanwhile.
#include <chrono>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace tessera {

struct Command {
  std::vector<std::string> arguments;    // the program, looked up in PATH, first
  std::vector<std::string> environment;  // "NAME=value" over those of this process
  std::filesystem::path log;             // gets standard output and error
};

struct ChildResult {
  int start_errno = 0;  // the program could not be started, as ENOENT
  int exit_status = 0;  // as a shell gives it: 128 + signal for a killed child
};

// Runs the command to its end, calling `tick` now and then. On stop the child is killed and
// Error(kCancelled) thrown.
ChildResult run_child(const Command& command, const std::function<void()>& tick,
                      const std::stop_token& stop);

}  // namespace tessera
