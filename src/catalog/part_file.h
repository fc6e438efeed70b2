#pragma once
// The part of a model that is here so far, and the names of all files around a pull.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/file.h"

namespace tessera {

// Names derived from the final path of a model.
std::filesystem::path part_path(const std::filesystem::path& model);  // .part: bytes so far
std::filesystem::path sidecar_path(
    const std::filesystem::path& model);  // .part.json: packages so far
std::filesystem::path wheels_path(
    const std::filesystem::path& model);  // folder for one wheel at a time
std::filesystem::path lock_path(const std::filesystem::path& model);

// Removes part, sidecar and wheels folder, and says whether any was there. Only under the model's
// lock.
bool remove_partial_pull(const std::filesystem::path& model);

// A file that grows at its end. One thread at a time.
class PartFile {
 public:
  // Opens or creates. Throws Error(kIo).
  explicit PartFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }

  // 0, or the errno of the write that failed; the bytes before it stay. It returns, since curl's C
  // code calls it.
  [[nodiscard]] int append(std::span<const std::byte> bytes);
  [[nodiscard]] int truncate(uint64_t size);

  // Throws Error(kIo) when the bytes cannot be made durable.
  void sync();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t size_ = 0;
};

}  // namespace tessera
