#pragma once
// A GGUF file's metadata and tensor table, read through ggml and checked before use: every getter
// verifies the type, every tensor lies inside the file. Throws Error(kModel) naming the file and
// the field. Internal to src/model (shows ggml types). Const methods are thread-safe.
#include <ggml-cpp.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tessera {

class GgufFile {
 public:
  struct Tensor {
    std::string name;
    ggml_type type = GGML_TYPE_F32;
    int64_t ne[4] = {1, 1, 1, 1};
    uint64_t offset = 0;  // from the start of the file
    uint64_t bytes = 0;
  };

  explicit GgufFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::string arch() const { return text("general.architecture"); }

  bool has(std::string_view key) const;
  // Unsigned integer keys, any stored integer width. The value must lie in [min, max].
  int32_t integer(std::string_view key, int64_t min, int64_t max) const;
  std::optional<int32_t> find_integer(std::string_view key, int64_t min, int64_t max) const;
  std::optional<float> find_real(std::string_view key) const;  // finite
  std::string text(std::string_view key) const;
  std::optional<std::string> find_text(std::string_view key) const;
  // Array of bools or integers.
  std::optional<std::vector<int64_t>> find_integers(std::string_view key) const;
  std::optional<size_t> array_length(std::string_view key) const;

  const Tensor* find_tensor(std::string_view name) const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Reads `out.size()` bytes of the tensor from byte `begin` of it.
  void read(const Tensor& tensor, uint64_t begin, std::span<std::byte> out) const;

  [[noreturn]] void fail(std::string_view field, std::string_view why) const;

 private:
  int64_t find_key(std::string_view key) const;
  std::optional<int64_t> integer_at(int64_t id, std::string_view key) const;
  void read_tensor_table();

  std::filesystem::path path_;
  FileDescriptor fd_;
  gguf_context_ptr gguf_;
  std::vector<Tensor> tensors_;
  uint64_t file_bytes_ = 0;
};

}  // namespace tessera
