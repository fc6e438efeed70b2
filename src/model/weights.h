#pragma once
// Weights as ggml tensors. Internal to src/model. Only read once they are loaded, by any thread.
#include <ggml-cpp.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/arch/architecture.h"
#include "model/model.h"

namespace tessera {

struct Model::State {
  ModelConfig config;
  std::shared_ptr<const Architecture> arch;
  ggml_tensor* token_embed = nullptr;   // ne[embed_dim, n_vocab]
  ggml_tensor* output_norm = nullptr;   // ne[embed_dim]
  ggml_tensor* output = nullptr;        // ne[embed_dim, n_vocab]; token_embed when the head is tied
  ggml_tensor* output_bias = nullptr;   // ne[n_vocab] or null
  ggml_tensor* rope_factors = nullptr;  // ne[n_rot / 2] or null
  std::vector<LayerWeights> layers;

  std::map<std::string, int32_t> type_counts;  // matrices by type
  std::map<std::string, bool> repacked;        // by type: whether any matrix of it is
  uint64_t bytes = 0;
  std::vector<ggml_context_ptr> contexts;
  std::vector<ggml_backend_buffer_ptr> buffers;
  std::shared_ptr<const Model> owner;  // of the tensors, where those are another model's
};

// Reads every tensor of the file into `state`, whose config and arch are set.
void load_weights(const GgufFile& file, const LoadOptions& options, Model::State& state);

}  // namespace tessera
