#pragma once
// The tensors behind a WorkingKv. Internal to src/model.
#include <ggml-cpp.h>

#include <memory>
#include <vector>

#include "model/working_kv.h"

namespace tessera {

struct WorkingKv::Buffers {
  ~Buffers();
  void* memory = nullptr;  // anonymous mapping: zero until written, and only then backed by pages
  size_t bytes = 0;
  ggml_context_ptr context;
  ggml_backend_buffer_ptr buffer;
  std::vector<ggml_tensor*> k, v;  // per layer, f16 ne[kv_dim, n_slots + kScratchSlots]
};

}  // namespace tessera
