#include "catalog/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/check.h"
#include "base/error.h"
#include "catalog/waiting.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kPoll{50};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> found;
  found.reserve(texts.size() + 1);
  for (std::string& text : texts) found.push_back(text.data());
  found.push_back(nullptr);
  return found;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& extra) {
  std::vector<std::string> merged = extra;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool is_replaced = false;
    for (const std::string& other : extra) is_replaced |= other.starts_with(name);
    if (!is_replaced) merged.push_back(text);
  }
  return merged;
}

// Kills and reaps its process unless that has ended, whatever way the scope is left.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool has_ended(int& status) {
    const pid_t found = ::waitpid(pid_, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return false;
    pid_ = 0;
    return true;
  }

 private:
  pid_t pid_;
};

}  // namespace

ChildResult run_child(const Command& command, const std::function<void()>& tick,
                      const std::stop_token& stop) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment);
  posix_spawn_file_actions_t actions;
  CHECK(posix_spawn_file_actions_init(&actions) == 0);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, command.log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int start_errno = posix_spawnp(&pid, arguments[0].c_str(), &actions, nullptr,
                                       pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (start_errno != 0) return {.start_errno = start_errno};

  Child child(pid);
  int status = 0;
  while (!child.has_ended(status)) {
    wait_or_throw(stop, kPoll);
    tick();
  }
  return {.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

}  // namespace tessera
