#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTempSuffix = ".tmp";
constexpr int kMaxTempNames = 1000;
constexpr size_t kReadBytes = size_t(64) << 10;

std::string errno_text() { return std::strerror(errno); }

// A temporary file that is locked while its writer lives. The kernel drops the lock when the
// process dies, however it dies, so a temporary file without a lock is garbage. A process id in the
// name would not tell that across containers that share a folder.
struct TempFile {
  FileDescriptor file;
  fs::path path;
};

// The sweeper may have seen the file between open and flock, taken it for garbage and removed its
// name.
bool was_swept(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && status.st_nlink == 0;
}

void lock_exclusively(int fd) {
  // Some network file systems have no locks; there the file is merely never swept.
  while (::flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
}

std::optional<TempFile> open_temp(const fs::path& target, std::string& error) {
  for (int i = 0; i < kMaxTempNames; ++i) {
    TempFile temp;
    temp.path = target.parent_path() /
                fmt::format(".{}.{}.{}{}", target.filename().string(), ::getpid(), i, kTempSuffix);
    temp.file = FileDescriptor(
        ::open(temp.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (temp.file.is_open()) {
      lock_exclusively(temp.file.get());
      if (!was_swept(temp.file.get())) return temp;
    } else if (errno != EEXIST) {
      error = "cannot create " + temp.path.string() + ": " + errno_text();
      return std::nullopt;
    }
  }
  error = "no free temporary name beside " + target.string();
  return std::nullopt;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

bool sync_dir(const fs::path& dir) {
  const FileDescriptor handle(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle.is_open()) return false;
  // Some file systems have no fsync for folders and say so with EINVAL; their renames are as
  // durable as they get.
  return ::fsync(handle.get()) == 0 || errno == EINVAL;
}

bool fill_temp(const TempFile& temp, std::span<const std::span<const std::byte>> pieces,
               const timespec& modified, std::string& error) {
  const int fd = temp.file.get();
  // A umask that takes the owner's own bits away must not make the file unreadable to us.
  bool is_ok = ::fchmod(fd, 0600) == 0;
  for (const auto& piece : pieces) is_ok = is_ok && write_all(fd, piece);
  const std::array<timespec, 2> times = {timespec{0, UTIME_NOW}, modified};
  is_ok = is_ok && ::futimens(fd, times.data()) == 0 && ::fsync(fd) == 0;
  if (!is_ok) error = "cannot write " + temp.path.string() + ": " + errno_text();
  return is_ok;
}

bool is_temp_name(const std::string& name) {
  return name.size() > kTempSuffix.size() && name.front() == '.' &&
         name.compare(name.size() - kTempSuffix.size(), kTempSuffix.size(), kTempSuffix) == 0;
}

bool remove_if_unlocked(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return ::unlink(path.c_str()) == 0;
}

// Empty when the variable is unset.
fs::path path_from_env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

// The XDG convention says that relative paths are ignored.
fs::path absolute_from_env(const char* name) {
  fs::path path = path_from_env(name);
  return path.is_absolute() ? path : fs::path();
}

fs::path xdg_dir(const char* variable, const char* below_home) {
  if (const fs::path base = absolute_from_env(variable); !base.empty()) return base / "tessera";
  const fs::path home = absolute_from_env("HOME");
  if (home.empty()) {
    throw Error(ErrorCode::kIo,
                std::string("no folder for tessera's files - HOME is not set - set HOME or ") +
                    variable + " to an absolute path");
  }
  return home / below_home / "tessera";
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ScratchFolder::ScratchFolder(const fs::path& parent) {
  std::string name = (parent / "tessera.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorCode::kIo,
                fmt::format("cannot make a folder in {} - {} - choose another folder or change its "
                            "permissions",
                            parent.string(), errno_text()));
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool write_file_atomic(const fs::path& path, std::span<const std::span<const std::byte>> pieces,
                       std::string& error, const timespec& modified) {
  const std::optional<TempFile> temp = open_temp(path, error);
  if (!temp) return false;
  bool is_ok = fill_temp(*temp, pieces, modified, error);
  if (is_ok && ::rename(temp->path.c_str(), path.c_str()) != 0) {
    error = "cannot rename onto " + path.string() + ": " + errno_text();
    is_ok = false;
  }
  if (!is_ok) {
    ::unlink(temp->path.c_str());
    return false;
  }
  const fs::path dir = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!sync_dir(dir)) {
    // Whether the new name survives a power cut is unknown, so the caller must not count on it.
    error = "cannot sync the folder " + dir.string() + ": " + errno_text();
    ::unlink(path.c_str());
    return false;
  }
  return true;
}

size_t sweep_temp_files(const fs::path& dir) {
  size_t n_removed = 0;
  std::error_code failed;
  for (fs::directory_iterator it(dir, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code unknown;
    const bool is_file = it->symlink_status(unknown).type() == fs::file_type::regular;
    if (!is_file || !is_temp_name(it->path().filename().string())) continue;
    if (remove_if_unlocked(it->path())) ++n_removed;
  }
  return n_removed;
}

std::optional<std::vector<std::byte>> read_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  size_t n_read = 0;
  // One byte more than the size: the read that finds the end then needs no larger buffer. The size
  // is only a hint, since a file may grow and a pipe has none.
  size_t room = S_ISREG(status.st_mode) ? static_cast<size_t>(status.st_size) + 1 : kReadBytes;
  while (true) {
    if (n_read == bytes.size()) {
      bytes.resize(n_read + room);
      room = std::max(kReadBytes, n_read);
    }
    const ssize_t got = ::read(file.get(), bytes.data() + n_read, bytes.size() - n_read);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    n_read += static_cast<size_t>(got);
  }
  bytes.resize(n_read);
  return bytes;
}

fs::path cache_dir() {
  const fs::path own = path_from_env("TESSERA_CACHE");
  return own.empty() ? xdg_dir("XDG_CACHE_HOME", ".cache") : fs::absolute(own);
}

fs::path data_dir() { return xdg_dir("XDG_DATA_HOME", ".local/share"); }

bool try_make_private_dir(const fs::path& path, std::string& error) {
  std::error_code unknown;
  if (path.empty() || fs::is_directory(path, unknown)) return true;
  if (path.parent_path() != path && !try_make_private_dir(path.parent_path(), error)) return false;
  if (!path.has_filename()) return true;  // "a/b/": the parent was the folder itself
  // As for files: a strange umask must not lock us out of our own folder.
  if (::mkdir(path.c_str(), 0700) == 0 && ::chmod(path.c_str(), 0700) == 0) return true;
  const int why = errno;
  // Another process may have made it meanwhile, and that is as good.
  if (why == EEXIST && fs::is_directory(path, unknown)) return true;
  error = "cannot create the folder " + path.string() + ": ";
  error += why == EEXIST ? "something that is no folder has that name" : std::strerror(why);
  return false;
}

void make_private_dir(const fs::path& path) {
  std::string error;
  if (try_make_private_dir(path, error)) return;
  throw Error(ErrorCode::kIo, error + " - choose another folder or change its permissions");
}

}  // namespace tessera
