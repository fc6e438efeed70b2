#include "model/working_kv.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "model/working_kv_buffers.h"

namespace tessera {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

WorkingKv::Buffers::~Buffers() {
  if (memory != nullptr) ::munmap(memory, bytes);
}

WorkingKv::WorkingKv(const ModelConfig& config, int32_t n_slots)
    : buffers_(std::make_unique<Buffers>()), id_(next_id()) {
  CHECK(n_slots > 0);
  n_slots_ = n_slots;
  n_readable_ = (n_slots + kDecodeKeyGroup - 1) / kDecodeKeyGroup * kDecodeKeyGroup;
  valid_.assign(static_cast<size_t>(n_slots_), false);
  Buffers& b = *buffers_;
  const auto n_tensors = 2 * static_cast<size_t>(config.n_layers);
  b.context.reset(ggml_init({.mem_size = ggml_tensor_overhead() * (n_tensors + 1),
                             .mem_buffer = nullptr,
                             .no_alloc = true}));
  for (int32_t i = 0; i < config.n_layers; ++i) {
    b.k.push_back(ggml_new_tensor_2d(b.context.get(), GGML_TYPE_F16, config.kv_dim(),
                                     n_readable_ + kScratchSlots));
    b.v.push_back(ggml_new_tensor_2d(b.context.get(), GGML_TYPE_F16, config.kv_dim(),
                                     n_readable_ + kScratchSlots));
  }
  const size_t alignment = ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
  const size_t each = (ggml_nbytes(b.k.front()) + alignment - 1) / alignment * alignment;
  b.bytes = each * n_tensors;
  b.memory = ::mmap(nullptr, b.bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (b.memory == MAP_FAILED) {
    b.memory = nullptr;
    throw Error(ErrorCode::kIo,
                fmt::format("cannot reserve {} MiB for the KV of {} tokens - use a smaller context",
                            b.bytes >> 20, n_slots_));
  }
  b.buffer.reset(ggml_backend_cpu_buffer_from_ptr(b.memory, b.bytes));
  auto* address = static_cast<std::byte*>(b.memory);
  for (size_t i = 0; i < b.k.size(); ++i) {
    for (ggml_tensor* t : {b.k[i], b.v[i]}) {
      CHECK(ggml_backend_tensor_alloc(b.buffer.get(), t, address) == GGML_STATUS_SUCCESS);
      address += each;
    }
  }
}

WorkingKv::~WorkingKv() = default;

void WorkingKv::clear() {
  ++epoch_;
  truncate(0);
}

void WorkingKv::truncate(int32_t position) {
  CHECK(position >= 0 && position <= n_slots_);
  std::fill(valid_.begin() + position, valid_.end(), false);
}

bool WorkingKv::complete_up_to(int32_t n) const {
  return n <= n_slots_ &&
         std::find(valid_.begin(), valid_.begin() + n, false) == valid_.begin() + n;
}

std::vector<float> WorkingKv::rotated_k(int32_t layer, TokenRange range) const {
  CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= n_slots_);
  ggml_tensor* k = buffers_->k.at(static_cast<size_t>(layer));
  const auto width = static_cast<size_t>(k->ne[0]);
  std::vector<float> out(width * static_cast<size_t>(range.size()));
  for (int32_t i = 0; i < range.size(); ++i) {
    CHECK(has(range.begin + i));
    const auto* half = reinterpret_cast<const ggml_fp16_t*>(row(k, range.begin + i));
    ggml_fp16_to_fp32_row(half, out.data() + static_cast<size_t>(i) * width, k->ne[0]);
  }
  return out;
}

void WorkingKv::mark(TokenRange range) {
  CHECK(range.begin >= 0 && range.end <= n_slots_);
  std::fill(valid_.begin() + range.begin, valid_.begin() + range.end, true);
}

void WorkingKv::zero_unclaimed(TokenRange slots, LayerRange layers) {
  for (int32_t slot = slots.begin; slot < std::min(slots.end, n_slots_); ++slot) {
    if (has(slot)) continue;
    for (int32_t layer = layers.begin; layer < layers.end; ++layer) {
      for (ggml_tensor* t :
           {buffers_->k[static_cast<size_t>(layer)], buffers_->v[static_cast<size_t>(layer)]})
        std::memset(row(t, slot), 0, t->nb[1]);
    }
  }
}

std::byte* WorkingKv::row(ggml_tensor* tensor, int32_t slot) const {
  return static_cast<std::byte*>(tensor->data) + static_cast<size_t>(slot) * tensor->nb[1];
}

}  // namespace tessera
