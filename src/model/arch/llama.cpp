// Llama 2 and 3.x, Mistral, Yi, SmolLM2, TinyLlama: pre-norm, gated SiLU, interleaved rotation
// (GGUF permutes q and k).
#include <fmt/format.h>

#include "model/arch/architecture.h"
#include "model/layer_builder.h"

namespace tessera {
namespace {

class Llama : public Architecture {
 public:
  void configure(const GgufFile& file, ModelConfig& c) const override {
    if (c.layers.front().rope.n_rot != c.head_dim) {
      file.fail("llama.rope.dimension_count",
                fmt::format("is {}, this family rotates the whole head ({})",
                            c.layers.front().rope.n_rot, c.head_dim));
    }
    if (file.has("llama.attention.scale")) file.fail("llama.attention.scale", "is not supported");
    for (LayerConfig& layer : c.layers) layer.rope.pairing = RopePairing::kInterleaved;
  }

  std::vector<Extra> extras() const override {
    return {{"attn_q.bias", false},      {"attn_k.bias", false},   {"attn_v.bias", false},
            {"attn_output.bias", false}, {"ffn_gate.bias", false}, {"ffn_up.bias", false},
            {"ffn_down.bias", false}};
  }

  ggml_tensor* layer(LayerBuilder& g, ggml_tensor* x) const override {
    ggml_tensor* attended = g.attention(g.norm(x, g.weights().attn_norm));
    x = g.add(attended, g.residual(x));
    return g.add(g.feed_forward(g.norm(x, g.weights().ffn_norm)), x);
  }
};

}  // namespace

std::unique_ptr<Architecture> make_llama() { return std::make_unique<Llama>(); }

}  // namespace tessera
