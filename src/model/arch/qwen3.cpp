// Qwen3: as qwen2 with an RMS norm on every head of q and k (before rotation) in place of the
// biases.
#include "model/arch/architecture.h"
#include "model/layer_builder.h"

namespace tessera {
namespace {

class Qwen3 : public Architecture {
 public:
  void configure(const GgufFile&, ModelConfig& c) const override {
    for (LayerConfig& layer : c.layers) layer.rope.pairing = RopePairing::kHalfSplit;
  }

  std::vector<Extra> extras() const override {
    return {{"attn_q_norm.weight", true},
            {"attn_k_norm.weight", true},
            {"attn_q.bias", false},
            {"attn_k.bias", false},
            {"attn_v.bias", false}};
  }

  ggml_tensor* layer(LayerBuilder& g, ggml_tensor* x) const override {
    ggml_tensor* attended = g.attention(g.norm(x, g.weights().attn_norm));
    x = g.add(attended, g.residual(x));
    return g.add(g.feed_forward(g.norm(x, g.weights().ffn_norm)), x);
  }
};

}  // namespace

std::unique_ptr<Architecture> make_qwen3() { return std::make_unique<Qwen3>(); }

}  // namespace tessera
