#include "cli/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tessera {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A pipe whose reader has left.
int closed_pipe() {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  close(ends[0]);
  return ends[1];
}

int open_stdout(Stdout where, const std::filesystem::path& captured) {
  switch (where) {
    case Stdout::kClosedPipe:
      return closed_pipe();
    case Stdout::kFullDisk:
      return open("/dev/full", O_WRONLY);
    case Stdout::kCaptured:
      break;
  }
  return open(captured.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
}

}  // namespace

Program::Program() {
  env_ = {{"TESSERA_CACHE", cache().string()},
          {"XDG_DATA_HOME", (cache() / "data").string()},
          {"TESSERA_MODELS", ""},
          {"TESSERA_CATALOG", ""},
          {"OMP_WAIT_POLICY", "passive"}};
}

Running Program::start(const std::vector<std::string>& args, Stdout where) {
  const std::string number = std::to_string(++n_started_);
  Running running = {-1, where, output_.path() / ("out" + number),
                     output_.path() / ("err" + number)};
  const int out_fd = open_stdout(where, running.out);
  const int err_fd = open(running.err.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  std::vector<std::string> words = {TESSERA_BIN};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  running.pid = fork();
  if (running.pid == 0) {
    for (const auto& [name, value] : env_) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(out_fd);
  close(err_fd);
  return running;
}

Outcome Program::wait(const Running& running) {
  int status = 0;
  if (running.pid < 0 || waitpid(running.pid, &status, 0) != running.pid) return {};
  Outcome result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (running.where == Stdout::kCaptured) result.out = text_of(running.out);
  result.err = text_of(running.err);
  return result;
}

bool Program::is_running(const Running& running) {
  siginfo_t info = {};
  const auto id = static_cast<id_t>(running.pid);
  return waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

}  // namespace tessera
