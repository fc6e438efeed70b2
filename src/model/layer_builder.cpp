#include "model/layer_builder.h"

#include <algorithm>

#include "base/check.h"
#include "model/rope.h"
#include "model/step_graph.h"

namespace tessera {

const LayerWeights& LayerBuilder::weights() const {
  return step_.model_.layers[static_cast<size_t>(layer_)];
}

ggml_tensor* LayerBuilder::norm(ggml_tensor* x, ggml_tensor* weight) {
  return ggml_mul(step_.ctx(), ggml_rms_norm(step_.ctx(), x, step_.model_.config.norm_epsilon),
                  weight);
}

ggml_tensor* LayerBuilder::add(ggml_tensor* a, ggml_tensor* b) {
  return ggml_add(step_.ctx(), a, b);
}

ggml_tensor* LayerBuilder::linear(ggml_tensor* weight, ggml_tensor* bias, ggml_tensor* x) {
  ggml_tensor* y = ggml_mul_mat(step_.ctx(), weight, x);
  return bias == nullptr ? y : ggml_add(step_.ctx(), y, bias);
}

ggml_tensor* LayerBuilder::rotate(ggml_tensor* x) {
  return rope(step_.ctx(), {x, step_.positions_, step_.model_.rope_factors},
              step_.model_.config.layers[static_cast<size_t>(layer_)].rope);
}

LayerBuilder::Qkv LayerBuilder::project(ggml_tensor* h, bool with_query) {
  const LayerWeights& w = weights();
  const ModelConfig& c = step_.model_.config;
  ggml_context* ctx = step_.ctx();
  const auto heads = [&](ggml_tensor* x, int32_t n) {
    return ggml_reshape_3d(ctx, x, c.head_dim, n, x->ne[1]);
  };
  Qkv out = {};
  if (with_query) {
    out.q = heads(linear(w.wq, w.bq, h), c.n_heads);
    if (w.q_norm != nullptr) out.q = norm(out.q, w.q_norm);
  }
  out.k = heads(linear(w.wk, w.bk, h), c.n_kv_heads);
  if (w.k_norm != nullptr) out.k = norm(out.k, w.k_norm);
  out.v = heads(linear(w.wv, w.bv, h), c.n_kv_heads);
  if (step_.shape_.kv_layer == layer_) {
    step_.k_out_ = step_.output(out.k);
    step_.v_out_ = step_.output(out.v);
  }
  if (step_.shape_.capture_kv) {
    step_.captured_.push_back(step_.output(ggml_cast(ctx, out.k, GGML_TYPE_F16)));
    step_.captured_.push_back(step_.output(ggml_cast(ctx, out.v, GGML_TYPE_F16)));
  }
  return out;
}

// ggml_set_rows gives a view that attention does not read (it reads the whole buffer), so nothing
// in the graph orders the two: both writes are put into it before attention is built.
void LayerBuilder::write_kv(const Qkv& qkv, ggml_tensor* rotated_k) {
  ggml_context* ctx = step_.ctx();
  const auto layer = static_cast<size_t>(layer_);
  const int64_t kv_dim = step_.model_.config.kv_dim();
  for (size_t i = 0; i < step_.shape_.sequences.size(); ++i) {
    const StepShape::Sequence& s = step_.shape_.sequences[i];
    ggml_tensor* slots = step_.slots_[i];
    const WorkingKv::Buffers& kv = *s.kv->buffers_;
    const std::pair<ggml_tensor*, ggml_tensor*> writes[] = {{kv.k[layer], rotated_k},
                                                            {kv.v[layer], qkv.v}};
    for (const auto& [target, source] : writes) {
      ggml_tensor* rows = ggml_view_2d(ctx, source, kv_dim, slots->ne[0], source->nb[2],
                                       static_cast<size_t>(s.first_row) * source->nb[2]);
      ggml_build_forward_expand(step_.graph_, ggml_set_rows(ctx, target, rows, slots));
    }
  }
}

// Gives `q`, ne[head_dim, n_heads, n_padded], with attention's result in the place of the
// sequence's queries.
//
// Query heads that share K and V are handed to the kernel as rows of one head, those of one
// position next to each other. Its tiles of 64 rows then span few positions, so that with gaps
// between them nearly every tile of keys that no row sees is skipped, and few tiles are only part
// full.
ggml_tensor* LayerBuilder::attend_sequence(size_t index, ggml_tensor* q) {
  ggml_context* ctx = step_.ctx();
  const ModelConfig& c = step_.model_.config;
  const StepShape::Sequence& s = step_.shape_.sequences[index];
  const int64_t group = step_.shape_.group;
  const int64_t n_groups = c.n_heads / group;
  const size_t group_bytes = static_cast<size_t>(group) * q->nb[1];
  const auto offset = [&](int32_t row) {
    return static_cast<size_t>(s.first_row + row) * q->nb[2];
  };
  const WorkingKv::Buffers& kv = *s.kv->buffers_;
  // rows: ne[head_dim, n_query_rows, n_groups]; gives ne[head_dim, n_groups, n_query_rows].
  const auto attend = [&](ggml_tensor* rows, size_t p) {
    const auto keys = [&](ggml_tensor* buffer) {
      return ggml_view_3d(ctx, buffer, c.head_dim, s.parts[p].n_keys, c.n_kv_heads, buffer->nb[1],
                          static_cast<size_t>(c.head_dim) * buffer->nb[0], 0);
    };
    const auto layer = static_cast<size_t>(layer_);
    ggml_tensor* out = ggml_flash_attn_ext(
        ctx, rows, keys(kv.k[layer]), keys(kv.v[layer]), step_.masks_for(layer_).parts[index][p],
        c.scale_query_first ? 1.0F : c.attention_scale, 0.0F, 0.0F);
    ggml_prec_set_acc(out, GGML_PREC_F32);
    return out;
  };
  // A step that decodes: nothing to rearrange.
  if (group == 1 && s.n_rows == q->ne[2] && s.parts.front().n_query_rows == s.n_rows)
    return attend(ggml_permute(ctx, q, 0, 2, 1, 3), 0);

  ggml_tensor* mine = ggml_view_4d(ctx, q, c.head_dim, group, n_groups, s.n_rows, q->nb[1],
                                   group_bytes, q->nb[2], offset(0));
  mine =
      ggml_cont(ctx, ggml_permute(ctx, mine, 0, 1, 3, 2));  // ne[head_dim, group, rows, n_groups]
  mine = ggml_reshape_3d(ctx, mine, c.head_dim, group * s.n_rows, n_groups);
  // What fills a part's last tile is the next part's rows, or these.
  const StepShape::Sequence::Part& last = s.parts.back();
  const int64_t n_missing = group * last.first_row + last.n_query_rows - mine->ne[1];
  if (n_missing > 0) mine = ggml_pad(ctx, mine, 0, static_cast<int>(n_missing), 0, 0);
  for (size_t p = 0; p < s.parts.size(); ++p) {
    const StepShape::Sequence::Part& part = s.parts[p];
    ggml_tensor* attended =
        attend(ggml_view_3d(ctx, mine, c.head_dim, part.n_query_rows, n_groups, mine->nb[1],
                            mine->nb[2], static_cast<size_t>(group * part.first_row) * mine->nb[1]),
               p);
    attended =
        ggml_view_4d(ctx, attended, c.head_dim, n_groups, group, part.n_rows, attended->nb[1],
                     attended->nb[2], static_cast<size_t>(group) * attended->nb[2], 0);
    q = ggml_set_inplace(ctx, q, ggml_permute(ctx, attended, 0, 2, 1, 3), q->nb[1], group_bytes,
                         q->nb[2], offset(part.first_row));
  }
  return q;
}

// Flash attention returns no weights, so the wanted rows take one explicit softmax(q k): that of
// `n` rows from the `first` of them, ne[n_keys, n, n_heads].
ggml_tensor* LayerBuilder::attention_weights(ggml_tensor* q, int64_t first, int64_t n) {
  ggml_context* ctx = step_.ctx();
  const ModelConfig& c = step_.model_.config;
  const StepShape::Sequence& s = step_.shape_.sequences.front();
  ggml_tensor* k = s.kv->buffers_->k[static_cast<size_t>(layer_)];
  ggml_tensor* which = step_.attention_rows_;
  which = ggml_view_1d(ctx, which, n, static_cast<size_t>(first) * which->nb[0]);
  ggml_tensor* mask = step_.masks_for(layer_).attention;
  mask = ggml_view_2d(ctx, mask, mask->ne[0], n, mask->nb[1],
                      static_cast<size_t>(first) * mask->nb[1]);
  ggml_tensor* flat = ggml_reshape_2d(ctx, q, int64_t{c.head_dim} * c.n_heads, q->ne[2]);
  ggml_tensor* rows =
      ggml_reshape_3d(ctx, ggml_get_rows(ctx, flat, which), c.head_dim, c.n_heads, n);
  ggml_tensor* keys = ggml_view_3d(ctx, k, c.head_dim, s.n_keys, c.n_kv_heads, k->nb[1],
                                   static_cast<size_t>(c.head_dim) * k->nb[0], 0);
  ggml_tensor* scores = ggml_mul_mat(ctx, keys, ggml_permute(ctx, rows, 0, 2, 1, 3));
  return ggml_soft_max_ext(ctx, scores, mask, c.scale_query_first ? 1.0F : c.attention_scale, 0.0F);
}

void LayerBuilder::probe_attention(ggml_tensor* q) {
  ggml_context* ctx = step_.ctx();
  const int64_t n_rows = step_.shape_.n_attention_rows;
  if (step_.in_range_ == nullptr) {
    ggml_tensor* weights = attention_weights(q, 0, n_rows);
    ggml_tensor*& sum = step_.attention_sum_;
    sum = sum == nullptr ? weights : ggml_add(ctx, sum, weights);
    ggml_build_forward_expand(step_.graph_, sum);  // attention overwrites q
    return;
  }
  // A block at a time, since the weights of many rows would take more memory than the model.
  constexpr int64_t kMostWeights = int64_t{4} << 20;
  const int64_t of_row =
      int64_t{step_.shape_.sequences.front().n_keys} * step_.model_.config.n_heads;
  const int64_t block = std::max<int64_t>(1, kMostWeights / of_row);
  for (int64_t first = 0; first < n_rows; first += block) {
    ggml_tensor* weights = attention_weights(q, first, std::min(block, n_rows - first));
    step_.range_sums_.push_back(step_.output(ggml_mul_mat(ctx, step_.in_range_, weights)));
  }
}

ggml_tensor* LayerBuilder::query_and_write_kv(ggml_tensor* h, bool with_query) {
  ggml_context* ctx = step_.ctx();
  const ModelConfig& c = step_.model_.config;
  const Qkv qkv = project(h, with_query);
  ggml_tensor* q = nullptr;
  if (with_query) {
    q = rotate(qkv.q);
    if (c.scale_query_first) q = ggml_scale(ctx, q, c.attention_scale);
    ggml_build_forward_expand(step_.graph_, q);
  }
  write_kv(qkv, rotate(qkv.k));
  if (step_.shape_.probes_attention(layer_)) probe_attention(q);
  return q;
}

ggml_tensor* LayerBuilder::attention(ggml_tensor* h) {
  ggml_context* ctx = step_.ctx();
  ggml_tensor* rows = query_and_write_kv(h, true);
  for (size_t i = 0; i < step_.shape_.sequences.size(); ++i) rows = attend_sequence(i, rows);
  rows = ggml_reshape_2d(ctx, rows, rows->ne[0] * rows->ne[1], rows->ne[2]);
  ggml_tensor* out = linear(weights().wo, weights().bo, rows);
  return trims_rows() ? ggml_get_rows(ctx, out, step_.logit_rows_) : out;
}

bool LayerBuilder::trims_rows() const { return step_.is_trimmed(layer_); }

ggml_tensor* LayerBuilder::residual(ggml_tensor* x) {
  return trims_rows() ? ggml_get_rows(step_.ctx(), x, step_.logit_rows_) : x;
}

ggml_tensor* LayerBuilder::feed_forward(ggml_tensor* h) {
  const LayerWeights& w = weights();
  ggml_tensor* up = linear(w.ffn_up, w.ffn_up_bias, h);
  ggml_tensor* gate = linear(w.ffn_gate, w.ffn_gate_bias, h);
  ggml_tensor* inner = step_.model_.config.activation == Activation::kSilu
                           ? ggml_swiglu_split(step_.ctx(), gate, up)
                           : ggml_geglu_split(step_.ctx(), gate, up);
  return linear(w.ffn_down, w.ffn_down_bias, inner);
}

void LayerBuilder::project_only(ggml_tensor* x) {
  query_and_write_kv(norm(x, weights().attn_norm), step_.shape_.probes_attention(layer_));
}

}  // namespace tessera
