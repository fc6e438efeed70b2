// The metadata that all families share.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/architecture.h"

namespace tessera {
namespace {

constexpr int64_t kMaxDim = 1 << 20;

// Scaling kinds of <arch>.rope.scaling.type; another kind rotates differently and would give wrong
// K silently.
void read_rope_scaling(const GgufFile& file, const std::string& prefix, RopeSpec& rope) {
  const std::string kind = file.find_text(prefix + "rope.scaling.type").value_or("linear");
  const float factor = file.find_real(prefix + "rope.scaling.factor")
                           .value_or(file.find_real(prefix + "rope.scale_linear").value_or(1.0F));
  if (kind != "none" && kind != "linear" && kind != "yarn") {
    file.fail(prefix + "rope.scaling.type",
              fmt::format("is '{}'; supported are none, linear and yarn", kind));
  }
  if (factor < 0.0F) file.fail(prefix + "rope.scaling.factor", "must not be negative");
  rope.freq_scale = kind == "none" || factor == 0.0F ? 1.0F : 1.0F / factor;
  rope.attn_factor = file.find_real(prefix + "rope.scaling.attn_factor").value_or(1.0F);
  if (kind == "yarn") {
    if (file.has(prefix + "rope.scaling.yarn_log_multiplier")) {
      file.fail(prefix + "rope.scaling.yarn_log_multiplier", "is not supported");
    }
    rope.ext_factor = 1.0F;
    // ggml multiplies by 1 + 0.1 ln(factor) (YaRN, section 3.4) and the model's own factor was
    // found without it. Both steps as libllama takes them, so that the rounding is the same.
    const float magnitude = 1.0F + 0.1F * std::log(1.0F / rope.freq_scale);
    rope.attn_factor *= (rope.freq_scale < 1.0F ? magnitude : 1.0F) * (1.0F / magnitude);
  }
  rope.n_ctx_orig = file.find_integer(prefix + "rope.scaling.original_context_length", 1, INT32_MAX)
                        .value_or(rope.n_ctx_orig);
  rope.has_factors = file.find_tensor("rope_freqs.weight") != nullptr;
  if (file.find_tensor("rope_factors_long.weight") != nullptr) {
    file.fail("rope_factors_long.weight", "LongRoPE factors are not supported");
  }
}

int32_t vocabulary_size(const GgufFile& file, const std::string& prefix) {
  const GgufFile::Tensor* embed = file.find_tensor("token_embd.weight");
  if (embed == nullptr) file.fail("token_embd.weight", "is missing");
  if (embed->ne[1] > kMaxDim * 4) file.fail("token_embd.weight", "has too many rows");
  const auto n_vocab = static_cast<int32_t>(embed->ne[1]);
  const std::optional<size_t> n_tokens = file.array_length("tokenizer.ggml.tokens");
  if (n_tokens && *n_tokens != static_cast<size_t>(n_vocab)) {
    file.fail("tokenizer.ggml.tokens",
              fmt::format("has {} tokens but token_embd.weight has {} rows", *n_tokens, n_vocab));
  }
  const std::optional<int32_t> declared = file.find_integer(prefix + "vocab_size", 1, INT32_MAX);
  if (declared && *declared != n_vocab)
    file.fail(prefix + "vocab_size",
              fmt::format("is {} but token_embd.weight has {} rows", *declared, n_vocab));
  return n_vocab;
}

void read_heads(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  c.n_heads = file.integer(prefix + "attention.head_count", 1, 4096);
  c.n_kv_heads = file.find_integer(prefix + "attention.head_count_kv", 1, 4096).value_or(c.n_heads);
  if (c.n_heads % c.n_kv_heads != 0)
    file.fail(prefix + "attention.head_count_kv", "must divide the head count");
  const std::optional<int32_t> key_length =
      file.find_integer(prefix + "attention.key_length", 2, 4096);
  if (!key_length && c.embed_dim % c.n_heads != 0)
    file.fail(prefix + "attention.head_count", "must divide the embedding length");
  c.head_dim = key_length.value_or(c.embed_dim / c.n_heads);
  if (c.head_dim % 8 != 0) file.fail(prefix + "attention.key_length", "must be a multiple of 8");
  const int32_t value_length =
      file.find_integer(prefix + "attention.value_length", 1, 4096).value_or(c.head_dim);
  if (value_length != c.head_dim)
    file.fail(prefix + "attention.value_length", "must equal the key length");
}

}  // namespace

ModelConfig read_config(const GgufFile& file, const Architecture& arch) {
  ModelConfig c;
  c.arch = file.arch();
  c.name = file.find_text("general.name").value_or(file.path().stem().string());
  const std::string prefix = c.arch + ".";
  c.n_layers = file.integer(prefix + "block_count", 1, 1024);
  c.n_ctx_train = file.integer(prefix + "context_length", 1, 1 << 28);
  c.embed_dim = file.integer(prefix + "embedding_length", 8, kMaxDim);
  c.ffn_dim = file.integer(prefix + "feed_forward_length", 8, kMaxDim);
  c.n_vocab = vocabulary_size(file, prefix);
  read_heads(file, prefix, c);
  const std::string epsilon = prefix + "attention.layer_norm_rms_epsilon";
  const std::optional<float> norm_epsilon = file.find_real(epsilon);
  if (!norm_epsilon) file.fail(epsilon, "is missing");
  if (*norm_epsilon < 0 || *norm_epsilon > 1) file.fail(epsilon, "must lie in 0..1");
  c.norm_epsilon = *norm_epsilon;
  c.attention_scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  if (file.find_integer(prefix + "expert_count", 0, 1 << 16).value_or(0) > 0) {
    file.fail(prefix + "expert_count", "mixture-of-experts models are not supported");
  }

  LayerConfig layer;
  layer.rope.n_ctx_orig = c.n_ctx_train;
  layer.rope.base = file.find_real(prefix + "rope.freq_base").value_or(10000.0F);
  if (layer.rope.base <= 1.0F) file.fail(prefix + "rope.freq_base", "must be above 1");
  layer.rope.n_rot =
      file.find_integer(prefix + "rope.dimension_count", 2, c.head_dim).value_or(c.head_dim);
  if (layer.rope.n_rot % 2 != 0) file.fail(prefix + "rope.dimension_count", "must be even");
  read_rope_scaling(file, prefix, layer.rope);
  c.layers.assign(static_cast<size_t>(c.n_layers), layer);
  arch.configure(file, c);
  return c;
}

}  // namespace tessera
