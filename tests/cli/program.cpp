#include "cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
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
  std::string name = (std::filesystem::temp_directory_path() / "tessera_cli.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
  cache_ = name;
  env_ = {{"TESSERA_CACHE", name},
          {"TESSERA_MODELS", ""},
          {"TESSERA_CATALOG", ""},
          {"OMP_WAIT_POLICY", "passive"}};
}

Program::~Program() {
  std::error_code ignored;
  std::filesystem::remove_all(cache_, ignored);
}

Outcome Program::run(const std::vector<std::string>& args, Stdout where) const {
  const std::filesystem::path out = cache_ / "stdout.txt";
  const std::filesystem::path err = cache_ / "stderr.txt";
  const int out_fd = open_stdout(where, out);
  const int err_fd = open(err.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  std::vector<std::string> words = {TESSERA_BIN};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child == 0) {
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
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return {};
  Outcome result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (where == Stdout::kCaptured) result.out = text_of(out);
  result.err = text_of(err);
  return result;
}

}  // namespace tessera
