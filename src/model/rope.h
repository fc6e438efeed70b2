#pragma once
// The one rotation of src/model: computed and loaded K go through it alike. Internal (shows ggml
// types).
#include <ggml.h>

#include "model/config.h"

namespace tessera {

struct RopeInput {
  ggml_tensor* x = nullptr;          // ne[head_dim, heads, n_rows], f32 or f16
  ggml_tensor* positions = nullptr;  // I32 ne[n_rows]
  ggml_tensor* factors = nullptr;    // ne[n_rot / 2], or null
};

// Computes in f32. In place: the result is a view of x.
inline ggml_tensor* rope(ggml_context* ctx, const RopeInput& in, const RopeSpec& r,
                         bool in_place = false) {
  const int mode =
      r.pairing == RopePairing::kHalfSplit ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
  const auto rotate = in_place ? ggml_rope_ext_inplace : ggml_rope_ext;
  return rotate(ctx, in.x, in.positions, r.has_factors ? in.factors : nullptr, r.n_rot, mode,
                r.n_ctx_orig, r.base, r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast,
                r.beta_slow);
}

}  // namespace tessera
