#include "catalog/file_digest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace fs = std::filesystem;

namespace tessera {
namespace {

constexpr size_t kReadBytes = size_t(1) << 20;

[[noreturn]] void throw_unreadable(const fs::path& path, int code) {
  const std::string why = std::error_code(code, std::generic_category()).message();
  throw Error(ErrorCode::kIo,
              fmt::format("cannot read {} - {} - check the path", path.string(), why));
}

FilePrint print_in(const struct stat& info) {
  const auto nanoseconds = [](const timespec& t) {
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  };
  return {info.st_size, info.st_dev, info.st_ino, nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

FilePrint print_of(int fd, const fs::path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_unreadable(path, errno);
  return print_in(info);
}

std::string hash_of(int fd, const fs::path& path, const std::function<void(uint64_t)>& progress) {
  Sha256 hash;
  std::vector<std::byte> buffer(kReadBytes);
  uint64_t n_read = 0;
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_unreadable(path, errno);
    if (got == 0) break;
    hash.update(std::span(buffer).first(static_cast<size_t>(got)));
    n_read += static_cast<uint64_t>(got);
    if (progress) progress(n_read);
  }
  return to_hex(hash.digest());
}

}  // namespace

FilePrint print_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_unreadable(path, errno);
  return print_in(info);
}

FileDigest digest_file(const fs::path& path, const std::function<void(uint64_t)>& progress) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) throw_unreadable(path, errno);
  const FilePrint before = print_of(file.get(), path);
  FileDigest digest;
  digest.sha256 = hash_of(file.get(), path, progress);
  struct stat info {};
  const bool is_there = ::stat(path.c_str(), &info) == 0;
  if (is_there && print_of(file.get(), path) == before && print_in(info) == before) {
    digest.print = before;
  }
  return digest;
}

}  // namespace tessera
