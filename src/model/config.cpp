#include "model/config.h"

#include <fmt/format.h>

namespace tessera {

std::string ModelConfig::rope_text() const {
  std::string out = fmt::format("head_dim={};n_rot_per_layer=", head_dim);
  for (const LayerConfig& layer : layers) {
    const RopeSpec& r = layer.rope;
    out += fmt::format("[{},{},{},{:a},{:a},{:a},{:a},{:a},{:a},{},{}]",
                       r.pairing == RopePairing::kInterleaved ? "i" : "h", r.n_rot, r.n_ctx_orig,
                       r.base, r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast, r.beta_slow,
                       r.has_factors, layer.sliding_window);
  }
  return out;
}

}  // namespace tessera
