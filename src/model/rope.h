#pragma once
// The one rotation of src/model: computed and loaded K go through it alike. Internal (shows ggml
// types).
#include <ggml.h>

#include "model/config.h"

namespace tessera {

// x: ne[head_dim, heads, n_rows], f32 or f16; positions: I32 ne[n_rows]; factors: ne[n_rot / 2] or
// null. Computes in f32. In place: the result is a view of x.
inline ggml_tensor* rope(ggml_context* ctx, ggml_tensor* x, ggml_tensor* positions,
                         ggml_tensor* factors, const RopeSpec& r, bool in_place = false) {
  const int mode =
      r.pairing == RopePairing::kHalfSplit ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
  const auto rotate = in_place ? ggml_rope_ext_inplace : ggml_rope_ext;
  return rotate(ctx, x, positions, r.has_factors ? factors : nullptr, r.n_rot, mode, r.n_ctx_orig,
                r.base, r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast, r.beta_slow);
}

}  // namespace tessera
