#pragma once
// An exclusive lock on a file, between threads and between processes; the system frees it when its
// holder dies.
#include <filesystem>
#include <optional>
#include <stop_token>

#include "base/file.h"

namespace tessera {

class FileLock {
 public:
  // Nothing when another holder has it. Throws Error(kIo) when the lock file cannot be opened.
  static std::optional<FileLock> try_acquire(const std::filesystem::path& path);

  // Waits for the holder to end. Throws Error(kCancelled) on stop.
  static FileLock acquire(const std::filesystem::path& path, const std::stop_token& stop);

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

}  // namespace tessera
