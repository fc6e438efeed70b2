#pragma once
// Files: whole or invisible writes, reads that say what failed, and the folders of the XDG
// convention. Functions are thread-safe; an object belongs to one thread at a time.
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Owns an open file descriptor; -1 means none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// A new folder of mode 0700 in `parent`, removed with all that is in it when the object goes.
// Throws Error(kIo) naming `parent`.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::filesystem::path& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Writes a file that appears whole or not at all: temporary O_EXCL name in the same folder (mode
// 0600), every return checked, fsync, rename over `path`, fsync of the folder. False with errno's
// text in `error` when the system refuses; nothing is left behind then. Pieces are written one
// after the other. `modified`: the time of modification that the file has from its appearance on,
// as futimens() takes it.
bool write_file_atomic(const std::filesystem::path& path,
                       std::span<const std::span<const std::byte>> pieces, std::string& error,
                       const timespec& modified = {0, UTIME_NOW});

// Removes what a killed writer left behind in `dir` (not below it) and says how many files that
// were. Temporary files of writers that still run, in this process or another, are kept.
size_t sweep_temp_files(const std::filesystem::path& dir);

// The whole file, or nothing when it does not exist or cannot be read.
std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path);

// ~/.cache/tessera and ~/.local/share/tessera, or the XDG_* and TESSERA_CACHE overrides. A relative
// TESSERA_CACHE is meant from the current folder.
std::filesystem::path cache_dir();
std::filesystem::path data_dir();

// Creates the folder with mode 0700 and its parents. Throws Error(kIo) naming the folder.
void make_private_dir(const std::filesystem::path& path);

// The same for callers that can do without the folder: false and the reason in `error`.
bool try_make_private_dir(const std::filesystem::path& path, std::string& error);

}  // namespace tessera
