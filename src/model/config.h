#pragma once
// What a decoder needs to know of a model, read from its GGUF metadata and checked. Plain values.
#include <cstdint>
#include <string>
#include <vector>

#include "kv/chunk.h"

namespace tessera {

// Which two dimensions of a head a rotation joins: (2i, 2i+1) or (i, i + n_rot/2).
enum class RopePairing { kInterleaved, kHalfSplit };

// Rotary embedding of one layer, in the terms of ggml_rope_ext.
struct RopeSpec {
  RopePairing pairing = RopePairing::kHalfSplit;
  int32_t n_rot = 0;       // rotated dimensions of a head
  int32_t n_ctx_orig = 0;  // context of training before scaling; YaRN
  float base = 10000.0F;
  float freq_scale = 1.0F;  // 1 / scaling factor
  float ext_factor = 0.0F;  // 1: YaRN
  float attn_factor = 1.0F;
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
  bool has_factors = false;  // rope_freqs.weight divides the frequencies (Llama 3)
};

enum class Activation { kSilu, kGelu };

struct LayerConfig {
  RopeSpec rope;
  int32_t sliding_window = 0;  // keys visible to a query, itself included; 0: all
};

struct ModelConfig {
  std::string arch;  // registered family name
  std::string name;  // general.name, for display only
  int32_t n_layers = 0;
  int32_t n_ctx_train = 0;
  int32_t n_vocab = 0;
  int32_t embed_dim = 0;
  int32_t ffn_dim = 0;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
  float norm_epsilon = 1e-5F;
  float embed_scale = 1.0F;
  float attention_scale = 0.0F;      // applied to q k; set by the family
  bool scale_query_first = false;    // the scale multiplies q itself (Gemma) instead of the scores
  float final_logit_softcap = 0.0F;  // 0: none
  Activation activation = Activation::kSilu;
  std::vector<LayerConfig> layers;

  int32_t kv_dim() const { return n_kv_heads * head_dim; }
  KvGeometry kv_geometry() const { return {n_layers, kv_dim()}; }
  // Canonical text of the rotary geometry of every layer: part of the chunk key.
  std::string rope_text() const;
};

}  // namespace tessera
