#include "catalog/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace fs = std::filesystem;

namespace tessera {
namespace {

[[noreturn]] void throw_unusable(const fs::path& path, int code) {
  const std::string why = std::error_code(code, std::generic_category()).message();
  throw Error(ErrorCode::kIo, fmt::format("cannot write {} - {} - check the folder and the disk",
                                          path.string(), why));
}

}  // namespace

fs::path part_path(const fs::path& model) { return model.string() + ".part"; }
fs::path sidecar_path(const fs::path& model) { return model.string() + ".part.json"; }
fs::path wheels_path(const fs::path& model) { return model.string() + ".wheels"; }

fs::path lock_path(const fs::path& model) {
  return model.parent_path() / fmt::format(".{}.lock", model.filename().string());
}

bool remove_partial_pull(const fs::path& model) {
  std::error_code ignored;  // what cannot be removed is overwritten by the next pull
  const bool had_part = fs::remove(part_path(model), ignored);
  const bool had_sidecar = fs::remove(sidecar_path(model), ignored);
  const bool had_wheels = fs::remove_all(wheels_path(model), ignored) > 0 && !ignored;
  return had_part || had_sidecar || had_wheels;
}

PartFile::PartFile(fs::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
  struct stat info {};
  if (!file_.is_open() || ::fstat(file_.get(), &info) != 0) throw_unusable(path_, errno);
  size_ = static_cast<uint64_t>(info.st_size);
}

int PartFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    size_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return 0;
}

int PartFile::truncate(uint64_t size) {
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) return errno;
  size_ = size;
  return 0;
}

void PartFile::sync() {
  if (::fsync(file_.get()) != 0) throw_unusable(path_, errno);
}

}  // namespace tessera
