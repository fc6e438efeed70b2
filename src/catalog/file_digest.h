#pragma once
// The digest of a file together with what the file looked like while it was read, so that the
// digest is never believed of another file that took its place. Thread-safe; of two digests
// remembered at once one may be forgotten.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace tessera {

// What must be unchanged for a digest to hold. The change time is there because the modification
// time can be set back by hand.
struct FilePrint {
  int64_t bytes = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  bool operator==(const FilePrint&) const = default;
};

// Throws Error(kIo) when there is no such file.
FilePrint print_of(const std::filesystem::path& path);

struct FileDigest {
  std::string sha256;              // hex
  std::optional<FilePrint> print;  // nothing when the file was changed or replaced meanwhile
};

// Throws Error(kIo) when the file cannot be read. `progress` gets bytes read so far, may be empty.
FileDigest digest_file(const std::filesystem::path& path,
                       const std::function<void(uint64_t)>& progress = {});

// Makes model_digest know the digest of a file that was hashed as `hashed` and then renamed to
// `gguf`, as after a pull. Nothing is remembered when another file lies there.
void remember_digest(const std::filesystem::path& gguf, const FileDigest& hashed);

}  // namespace tessera
