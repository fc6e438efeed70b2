#pragma once
// One architecture family: how its metadata is read, which tensors a layer has, and how a layer is
// computed. To add one: write arch/NAME.cpp with a make_NAME(), then its declaration and row in
// arch/registry.cpp. Implementations are stateless, so safe from any thread. Internal to src/model
// (shows ggml types).
#include <ggml.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/gguf_file.h"

namespace tessera {

// A tensor that a layer (or the model) may have. `ne` is the shape it must have in ggml's order;
// unused dims are 1.
struct TensorSpec {
  std::string name;
  int64_t ne[2] = {1, 1};
  bool required = true;
};

// Tensors of one layer as graph inputs; null where the file has none.
struct LayerWeights {
  ggml_tensor* attn_norm = nullptr;                         // ne[embed_dim]
  ggml_tensor *wq = nullptr, *wk = nullptr, *wv = nullptr;  // ne[embed_dim, heads * head_dim]
  ggml_tensor *bq = nullptr, *bk = nullptr, *bv = nullptr;
  ggml_tensor *q_norm = nullptr, *k_norm = nullptr;  // ne[head_dim]
  ggml_tensor *wo = nullptr, *bo = nullptr;          // ne[n_heads * head_dim, embed_dim]
  ggml_tensor* attn_post_norm = nullptr;             // ne[embed_dim]
  ggml_tensor* ffn_norm = nullptr;                   // ne[embed_dim]
  ggml_tensor *ffn_gate = nullptr, *ffn_up = nullptr, *ffn_down = nullptr;
  ggml_tensor *ffn_gate_bias = nullptr, *ffn_up_bias = nullptr, *ffn_down_bias = nullptr;
  ggml_tensor* ffn_post_norm = nullptr;  // ne[embed_dim]
};

class LayerBuilder;

class Architecture {
 public:
  virtual ~Architecture() = default;

  // Fills what the family adds to the common fields (already read): rotary kind, windows, scales,
  // activation. Throws Error(kModel) for anything of the file that this family's graph does not
  // compute.
  virtual void configure(const GgufFile& file, ModelConfig& config) const = 0;

  // Suffixes of the optional tensors that this family knows, e.g. "attn_q.bias" or
  // "attn_q_norm.weight"; required ones are marked. The common matrices and norms are always
  // required.
  struct Extra {
    std::string_view suffix;
    bool required;
  };
  virtual std::vector<Extra> extras() const { return {}; }

  // One layer: x in, x out; ne[embed_dim, n_rows].
  virtual ggml_tensor* layer(LayerBuilder& g, ggml_tensor* x) const = 0;
};

std::vector<std::string_view> architecture_names();
// Null when the family is not known.
std::unique_ptr<Architecture> make_architecture(std::string_view name);

// Reads and checks the metadata: the common fields, then the family's. Throws Error(kModel) naming
// the field; for an unknown family it names the supported ones.
ModelConfig read_config(const GgufFile& file, const Architecture& arch);
std::unique_ptr<Architecture> architecture_of(const GgufFile& file);

}  // namespace tessera
