// Gemma 3 (text): scaled embeddings, norms before and after both halves of a layer, QK-norm, gated
// GELU, and five layers with a sliding window and their own unscaled rotary base for each global
// one.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/architecture.h"
#include "model/layer_builder.h"

namespace tessera {
namespace {

constexpr int32_t kLocalPerGlobal = 5;  // Gemma 3 report (2025), section 2: 5:1 interleaving
constexpr float kLocalRopeBase = 10000.0F;
constexpr int32_t kLayersOf27b = 62;  // the one size whose query scale is not 1/sqrt(head_dim)

class Gemma3 : public Architecture {
 public:
  void configure(const GgufFile& file, ModelConfig& c) const override {
    c.embed_scale = std::sqrt(static_cast<float>(c.embed_dim));
    c.activation = Activation::kGelu;
    c.scale_query_first = true;
    if (c.n_layers == kLayersOf27b)
      c.attention_scale =
          1.0F / std::sqrt(static_cast<float>(c.embed_dim) / static_cast<float>(c.n_heads));
    c.final_logit_softcap = file.find_real("gemma3.final_logit_softcapping").value_or(0.0F);
    const int32_t window =
        file.find_integer("gemma3.attention.sliding_window", 0, INT32_MAX).value_or(0);
    const float local_base = file.find_real("gemma3.rope.freq_base_swa").value_or(kLocalRopeBase);
    const std::vector<bool> local = local_layers(file, c.n_layers, window);
    for (size_t i = 0; i < c.layers.size(); ++i) {
      LayerConfig& layer = c.layers[i];
      layer.rope.pairing = RopePairing::kHalfSplit;
      if (!local[i]) continue;
      layer.sliding_window = window;
      layer.rope.base = local_base;
      layer.rope.freq_scale = 1.0F;
    }
  }

  std::vector<Extra> extras() const override {
    return {{"attn_q_norm.weight", true},
            {"attn_k_norm.weight", true},
            {"post_attention_norm.weight", true},
            {"post_ffw_norm.weight", true}};
  }

  ggml_tensor* layer(LayerBuilder& g, ggml_tensor* x) const override {
    const LayerWeights& w = g.weights();
    ggml_tensor* attended = g.norm(g.attention(g.norm(x, w.attn_norm)), w.attn_post_norm);
    x = g.add(attended, g.residual(x));
    ggml_tensor* fed = g.norm(g.feed_forward(g.norm(x, w.ffn_norm)), w.ffn_post_norm);
    return g.add(fed, x);
  }

 private:
  static std::vector<bool> local_layers(const GgufFile& file, int32_t n_layers, int32_t window) {
    std::vector<bool> local(static_cast<size_t>(n_layers), false);
    if (window == 0) return local;
    constexpr std::string_view kPattern = "gemma3.attention.sliding_window_pattern";
    if (const auto given = file.find_integers(kPattern)) {
      if (given->size() != local.size()) file.fail(kPattern, "must have one value per layer");
      for (size_t i = 0; i < local.size(); ++i) local[i] = (*given)[i] != 0;
      return local;
    }
    const int32_t period = file.find_integer(kPattern, 0, 1024).value_or(kLocalPerGlobal + 1);
    for (size_t i = 0; i < local.size(); ++i)
      local[i] = period == 0 || static_cast<int32_t>(i) % period < period - 1;
    return local;
  }
};

}  // namespace

std::unique_ptr<Architecture> make_gemma3() { return std::make_unique<Gemma3>(); }

}  // namespace tessera
