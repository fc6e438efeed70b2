#pragma once
// The tensors behind a WorkingKv. Internal to src/model.
#include <ggml-cpp.h>

#include <memory>
#include <vector>

#include "model/working_kv.h"

namespace tessera {

// Attention reads whole groups of keys, the masked ones behind the last position included, so that
// consecutive single-row steps keep one graph and the explicit softmax of a probe keeps its fast
// kernel. A KV has room for whole groups of either kind.
constexpr int32_t kKeyGroup = 32;
constexpr int32_t kDecodeKeyGroup = 256;
static_assert(kDecodeKeyGroup % kKeyGroup == 0);

struct WorkingKv::Buffers {
  ~Buffers();
  void* memory = nullptr;  // anonymous mapping: zero until written, and only then backed by pages
  size_t bytes = 0;
  ggml_context_ptr context;
  ggml_backend_buffer_ptr buffer;
  std::vector<ggml_tensor*> k, v;  // per layer, f16 ne[kv_dim, n_readable + kScratchSlots]
};

}  // namespace tessera
