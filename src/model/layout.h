#pragma once
// Which layout of a weight matrix is faster on this machine: as in the file, or repacked for ggml's
// own kernels. Internal to src/model.
#include <ggml-backend.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace tessera {

// ggml's buffer type of repacked weights, or null where this build has none.
ggml_backend_buffer_type_t repack_buffer_type();

struct MatrixShape {
  ggml_type type;
  int64_t n_in;   // ne[0]
  int64_t n_out;  // ne[1]
};

// Whether ggml has a repacked kernel for such a matrix on this machine.
bool can_repack(const MatrixShape& shape);

// Remembers measurements in `dir`/layout-<cpu>.json, so that runs do not differ by chance. Not
// thread-safe.
class LayoutChooser {
 public:
  LayoutChooser(const std::filesystem::path& dir, int32_t n_threads);

  // True when repacked is faster for one typical request: a prefill of kPrefillRows rows and
  // kDecodeSteps single rows.
  bool prefers_repack(const MatrixShape& shape);

  // Writes new measurements; a folder that cannot be written only means measuring again.
  void save() const;

 private:
  static constexpr int64_t kPrefillRows = 256;
  static constexpr int64_t kDecodeSteps = 16;

  double cost_ms(const MatrixShape& shape, bool repacked) const;

  std::filesystem::path file_;
  int32_t n_threads_;
  std::map<std::string, bool> known_;
  bool changed_ = false;
};

}  // namespace tessera
