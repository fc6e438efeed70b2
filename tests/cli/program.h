#pragma once
// Runs the tessera program as a shell would, with a cache folder of its own.
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera {

struct Outcome {
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

// Where the program's stdout goes.
enum class Stdout { kCaptured, kClosedPipe, kFullDisk };

// A program that was started and not waited for.
struct Running {
  pid_t pid = -1;
  Stdout where = Stdout::kCaptured;
  std::filesystem::path out;
  std::filesystem::path err;
};

class Program {
 public:
  Program();

  // The cache folder that the program is given, empty at first and removed at the end.
  const std::filesystem::path& cache() const { return cache_.path(); }

  // An environment variable of the program; an empty value takes it away.
  void set_env(const std::string& name, const std::string& value) { env_[name] = value; }

  Outcome run(const std::vector<std::string>& args, Stdout where = Stdout::kCaptured) {
    return wait(start(args, where));
  }
  Running start(const std::vector<std::string>& args, Stdout where = Stdout::kCaptured);
  static Outcome wait(const Running& running);
  // Whether there is nothing to wait for yet.
  static bool is_running(const Running& running);

 private:
  ScratchFolder cache_{std::filesystem::temp_directory_path()};
  ScratchFolder output_{std::filesystem::temp_directory_path()};  // what was printed
  std::map<std::string, std::string> env_;
  int n_started_ = 0;
};

}  // namespace tessera
