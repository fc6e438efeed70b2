#include "model/layout.h"

#include <fmt/format.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace tessera {
namespace {

// Names the machine as far as kernel speed goes: the processor and the instruction sets ggml was
// built to use.
std::string cpu_fingerprint() {
  std::string text;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name") || line.starts_with("flags")) text += line;
    if (line.starts_with("flags")) break;
  }
  text += fmt::format("avx2={} avx512={} vnni={}", ggml_cpu_has_avx2(), ggml_cpu_has_avx512(),
                      ggml_cpu_has_avx512_vnni());
  Sha256 hash;
  hash.update(text);
  hash.update(ggml_version());
  return to_hex(hash.digest()).substr(0, 12);
}

std::string name_of(const MatrixShape& s, int32_t n_threads) {
  return fmt::format("{} {}x{} {} threads", ggml_type_name(s.type), s.n_in, s.n_out, n_threads);
}

// One matrix in one layout, multiplied by a number of rows.
class MatrixTimer {
 public:
  // Of a large matrix (an output head) the first rows stand for all.
  MatrixTimer(const MatrixShape& shape, bool repacked, int32_t n_threads)
      : shape_{shape.type, shape.n_in, std::min(shape.n_out, kMaxRows)} {
    weights_.reset(ggml_init(
        {.mem_size = 2 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
    matrix_ = ggml_new_tensor_2d(weights_.get(), shape_.type, shape_.n_in, shape_.n_out);
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(
        weights_.get(), repacked ? repack_buffer_type() : ggml_backend_cpu_buffer_type()));
    if (buffer_ == nullptr) {
      throw Error(
          ErrorCode::kIo,
          "not enough memory to measure weight layouts - it is used up - choose one with --layout");
    }
    fill();
    backend_.reset(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(backend_.get(), n_threads);
  }

  // Least of `repeats` runs: what the kernel can do, whatever else the machine is doing.
  double ms(int64_t n_rows, int repeats) {
    ggml_context_ptr ctx(ggml_init({.mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(),
                                    .mem_buffer = nullptr,
                                    .no_alloc = true}));
    ggml_tensor* x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, shape_.n_in, n_rows);
    ggml_set_input(x);
    ggml_cgraph* graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, ggml_mul_mat(ctx.get(), matrix_, x));
    const ggml_gallocr_ptr alloc(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    CHECK(ggml_gallocr_alloc_graph(alloc.get(), graph));
    std::vector<float> input(static_cast<size_t>(shape_.n_in * n_rows));
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 17) / 17.0F - 0.5F;
    ggml_backend_tensor_set(x, input.data(), 0, ggml_nbytes(x));
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i <= repeats; ++i) {  // one more than asked: the first warms up
      const Stopwatch watch;
      ggml_backend_graph_compute(backend_.get(), graph);
      if (i > 0) best = std::min(best, watch.ms());
    }
    return best;
  }

 private:
  static constexpr int64_t kMaxRows = 8192;  // a multiple of every repacking group

  void fill() {
    std::vector<float> row(static_cast<size_t>(shape_.n_in));
    std::vector<std::byte> packed(ggml_nbytes(matrix_));
    uint32_t noise = 1;
    for (size_t r = 0; r < static_cast<size_t>(shape_.n_out); ++r) {
      for (float& value : row)
        value =
            static_cast<float>((noise = noise * 1664525U + 1013904223U) >> 8) / 16777216.0F - 0.5F;
      ggml_quantize_chunk(shape_.type, row.data(),
                          packed.data() + r * ggml_row_size(shape_.type, shape_.n_in), 0, 1,
                          shape_.n_in, nullptr);
    }
    ggml_backend_tensor_set(matrix_, packed.data(), 0, packed.size());
  }

  MatrixShape shape_;
  ggml_context_ptr weights_;
  ggml_tensor* matrix_ = nullptr;
  ggml_backend_buffer_ptr buffer_;
  ggml_backend_ptr backend_;
};

}  // namespace

ggml_backend_buffer_type_t repack_buffer_type() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return nullptr;
  auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  if (get == nullptr) return nullptr;
  for (ggml_backend_buffer_type_t* type = get(device); type != nullptr && *type != nullptr;
       ++type) {
    if (std::strcmp(ggml_backend_buft_name(*type), "CPU_REPACK") == 0) return *type;
  }
  return nullptr;
}

bool can_repack(const MatrixShape& shape) {
  ggml_backend_buffer_type_t type = repack_buffer_type();
  if (type == nullptr) return false;
  const ggml_context_ptr ctx(
      ggml_init({.mem_size = 4 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
  ggml_tensor* w = ggml_new_tensor_2d(ctx.get(), shape.type, shape.n_in, shape.n_out);
  // The answer depends on the buffer that the weight lies in, so an empty one of that type stands
  // in.
  const ggml_backend_buffer_ptr empty(ggml_backend_buft_alloc_buffer(type, 0));
  w->buffer = empty.get();
  ggml_tensor* product =
      ggml_mul_mat(ctx.get(), w, ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, shape.n_in, 512));
  return ggml_backend_dev_supports_op(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU),
                                      product);
}

LayoutChooser::LayoutChooser(const std::filesystem::path& dir, int32_t n_threads)
    : n_threads_(n_threads) {
  if (dir.empty()) return;
  file_ = dir / ("layout-" + cpu_fingerprint() + ".json");
  std::ifstream in(file_);
  const nlohmann::json table = nlohmann::json::parse(in, nullptr, false);
  if (!table.is_object()) return;  // absent or damaged: measured again
  for (const auto& [name, value] : table.items()) {
    if (value.is_boolean()) known_[name] = value.get<bool>();
  }
}

double LayoutChooser::cost_ms(const MatrixShape& shape, bool repacked) const {
  MatrixTimer timer(shape, repacked, n_threads_);
  return timer.ms(kPrefillRows, 2) + static_cast<double>(kDecodeSteps) * timer.ms(1, 4);
}

bool LayoutChooser::prefers_repack(const MatrixShape& shape) {
  if (!can_repack(shape)) return false;
  const std::string name = name_of(shape, n_threads_);
  const auto known = known_.find(name);
  if (known != known_.end()) return known->second;
  const bool repacked = cost_ms(shape, true) < cost_ms(shape, false);
  known_[name] = repacked;
  changed_ = true;
  return repacked;
}

void LayoutChooser::save() const {
  if (!changed_ || file_.empty()) return;
  const std::string text = nlohmann::json(known_).dump(1) + "\n";
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  std::string error;
  write_file_atomic(file_, {&piece, 1}, error);
}

}  // namespace tessera
