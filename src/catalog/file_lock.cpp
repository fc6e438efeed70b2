#include "catalog/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "catalog/waiting.h"

namespace tessera {
namespace {
constexpr std::chrono::milliseconds kRetry{50};
}

std::optional<FileLock> FileLock::try_acquire(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    return FileLock(std::move(file));
  }
  if (file.is_open() && (errno == EWOULDBLOCK || errno == EINTR)) return std::nullopt;
  const std::string why = std::error_code(errno, std::generic_category()).message();
  throw Error(ErrorCode::kIo,
              fmt::format("cannot lock {} - {} - check that the folder can be written",
                          path.string(), why));
}

FileLock FileLock::acquire(const std::filesystem::path& path, const std::stop_token& stop) {
  while (true) {
    if (auto lock = try_acquire(path)) return std::move(*lock);
    wait_or_throw(stop, kRetry);
  }
}

}  // namespace tessera
