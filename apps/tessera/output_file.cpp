#include "tessera/output_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"

namespace tessera {

void refuse_output(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorCode::kIo, fmt::format("cannot write {} - {} - make room or name another place",
                                          path.string(), why));
}

void write_output(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::string why;
  if (!write_file_atomic(path, {&bytes, 1}, why)) refuse_output(path, why);
}

void write_output(const std::filesystem::path& path, std::string_view text) {
  write_output(path, std::as_bytes(std::span(text)));
}

}  // namespace tessera
