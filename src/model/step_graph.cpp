#include "model/step_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "model/layer_builder.h"

namespace tessera {
namespace {

// GGML.md T1 to T3. Flash attention takes its tiled kernel from 64 query rows on. Repacked matrix
// products handle rows in groups of 4 and the rest by another kernel; the K-quant kernel starts at
// 8 rows.
constexpr int32_t kFlashQueryRows = 64;
constexpr int32_t kMinPartRows = 256;
constexpr int32_t kRowGroup = 4;
constexpr int32_t kMinRows = 8;

constexpr uint16_t kVisible = 0x0000;  // f16 0
constexpr uint16_t kMasked = 0xFC00;   // f16 -infinity

int32_t round_up(int32_t n, int32_t group) { return (n + group - 1) / group * group; }

// Query rows of one head such that the kernel's chunks (four a thread over all heads) end where its
// tiles end: a tile that is cut in two costs as much as two.
int32_t whole_tiles(int32_t n_heads, int32_t n_threads) {
  const int32_t tiles = kFlashQueryRows * 4 * n_threads;
  return std::lcm(kFlashQueryRows, tiles / std::gcd(tiles, n_heads));
}

// The rows of one sequence, cut so that each part fills whole tiles. Flash attention goes through
// all keys it is given for every tile, and skipping those that a tile does not see is not free
// (their mask is read): a part's keys end where its last row's do. Neighbours see nearly the same
// keys, so that for them parts cost more than they save.
std::vector<StepShape::Sequence::Part> parts_of(const SequenceRows& s, int32_t group,
                                                int32_t whole) {
  const auto n_rows = static_cast<int32_t>(s.positions.size());
  const bool has_gaps = s.positions.back() - s.positions.front() >= 2 * n_rows;
  const int32_t each = has_gaps ? std::max(1, round_up(kMinPartRows, whole) / group) : n_rows;
  std::vector<StepShape::Sequence::Part> parts;
  for (int32_t first = 0; first < n_rows; first += each) {
    const int32_t count = std::min(each, n_rows - first);
    const int32_t last_key = s.last_key_of(static_cast<size_t>(first + count) - 1);
    parts.push_back({first, count, 0, round_up(last_key + 1, kKeyGroup)});
  }
  return parts;
}

// Where many threads make whole tiles many rows, a few rows would be more mask than attention.
int32_t padded_rows(int32_t n_rows, int32_t whole) {
  constexpr int32_t kMost = 2048;
  const int32_t padded = round_up(n_rows, whole);
  return padded <= std::max(kMost, 2 * n_rows) ? padded : std::max(n_rows, kFlashQueryRows);
}

// An input that no node of this step's graph reads (a window's mask when only other layers run)
// gets no memory.
bool is_used(const ggml_tensor* input) { return input != nullptr && input->data != nullptr; }

}  // namespace

StepShape shape_of_step(const ModelConfig& config, std::span<const SequenceRows> sequences,
                        const StepOptions& options, int32_t n_threads) {
  const bool prefill = options.kernels == KernelClass::kPrefill;
  StepShape shape;
  for (const SequenceRows& s : sequences) {
    const int32_t n_keys = round_up(s.last_key() + 1, prefill ? kKeyGroup : kDecodeKeyGroup);
    const auto n_rows = static_cast<int32_t>(s.positions.size());
    shape.sequences.push_back({s.kv, s.kv->id(), shape.n_rows, n_rows, n_keys, {}});
    shape.n_rows += n_rows;
  }
  shape.n_padded = prefill ? std::max(kMinRows, round_up(shape.n_rows, kRowGroup)) : shape.n_rows;
  shape.sequences.back().n_rows += shape.n_padded - shape.n_rows;
  shape.group = prefill ? config.n_heads / config.n_kv_heads : 1;
  const int32_t whole = whole_tiles(config.n_heads / shape.group, n_threads);
  for (size_t i = 0; i < sequences.size(); ++i) {
    StepShape::Sequence& s = shape.sequences[i];
    if (!prefill) {
      s.parts = {{0, s.n_rows, s.n_rows, s.n_keys}};
      continue;
    }
    s.parts = parts_of(sequences[i], shape.group, whole);
    for (StepShape::Sequence::Part& part : s.parts)
      part.n_query_rows = padded_rows(part.n_rows * shape.group, whole);
  }
  shape.layer_begin = options.layers.begin;
  shape.layer_end = options.layers.end == 0 ? config.n_layers : options.layers.end;
  shape.n_logit_rows = static_cast<int32_t>(options.logit_rows.size());
  if (shape.n_logit_rows > 0) {
    shape.logit_layers = options.logit_layers;
    if (shape.logit_layers.empty()) shape.logit_layers = {config.n_layers - 1};
  }
  shape.return_hidden = options.return_hidden;
  shape.norm_begin = options.norm_layers.begin;
  shape.norm_end = options.norm_layers.end;
  shape.kv_layer = options.kv_layer;
  shape.capture_kv = options.capture_kv;
  shape.n_attention_rows = static_cast<int32_t>(options.attention_rows.size());
  if (shape.n_attention_rows > 0) {
    shape.attention_layers = options.attention_layers;
    shape.n_attention_ranges = static_cast<int32_t>(options.attention_ranges.size());
  }
  return shape;
}

StepGraph::StepGraph(const Model::State& model, StepShape shape)
    : model_(model), shape_(std::move(shape)) {
  size_t n_parts = 0;
  for (const StepShape::Sequence& s : shape_.sequences) n_parts += s.parts.size();
  const size_t per_layer = 64 + 20 * shape_.sequences.size() + 12 * n_parts;
  const size_t n_nodes = 256 + per_layer * static_cast<size_t>(model.config.n_layers + 1);
  context_.reset(ggml_init(
      {.mem_size = n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false),
       .mem_buffer = nullptr,
       .no_alloc = true}));
  graph_ = ggml_new_graph_custom(ctx(), n_nodes, false);
  create_inputs();
  build();
}

void StepGraph::create_inputs() {
  const auto input = [this](ggml_type type, int64_t ne0, int64_t ne1) {
    ggml_tensor* t = ggml_new_tensor_2d(ctx(), type, ne0, ne1);
    ggml_set_input(t);
    return t;
  };
  const ModelConfig& c = model_.config;
  if (shape_.layer_begin == 0) {
    tokens_ = input(GGML_TYPE_I32, shape_.n_padded, 1);
  } else {
    hidden_in_ = input(GGML_TYPE_F32, c.embed_dim, shape_.n_padded);
  }
  positions_ = input(GGML_TYPE_I32, shape_.n_padded, 1);
  if (shape_.n_logit_rows > 0) logit_rows_ = input(GGML_TYPE_I32, shape_.n_logit_rows, 1);
  if (shape_.n_attention_rows > 0)
    attention_rows_ = input(GGML_TYPE_I32, shape_.n_attention_rows, 1);
  if (shape_.n_attention_ranges > 0) {
    in_range_ = input(GGML_TYPE_F32, shape_.sequences.front().n_keys, shape_.n_attention_ranges);
  }
  for (const StepShape::Sequence& s : shape_.sequences)
    slots_.push_back(input(GGML_TYPE_I64, s.n_rows, 1));
  for (int32_t layer = shape_.layer_begin; layer < shape_.layer_end; ++layer) {
    const int32_t window = c.layers[static_cast<size_t>(layer)].sliding_window;
    if (std::any_of(masks_.begin(), masks_.end(),
                    [&](const Masks& m) { return m.window == window; }))
      continue;
    Masks masks;
    masks.window = window;
    for (const StepShape::Sequence& s : shape_.sequences) {
      std::vector<ggml_tensor*>& parts = masks.parts.emplace_back();
      for (const StepShape::Sequence::Part& part : s.parts)
        parts.push_back(input(GGML_TYPE_F16, part.n_keys, part.n_query_rows));
    }
    if (shape_.n_attention_rows > 0)
      masks.attention =
          input(GGML_TYPE_F16, shape_.sequences.front().n_keys, shape_.n_attention_rows);
    masks_.push_back(std::move(masks));
  }
}

const StepGraph::Masks& StepGraph::masks_for(int32_t layer) const {
  const int32_t window = model_.config.layers[static_cast<size_t>(layer)].sliding_window;
  const auto found = std::find_if(masks_.begin(), masks_.end(),
                                  [&](const Masks& m) { return m.window == window; });
  CHECK(found != masks_.end());
  return *found;
}

ggml_tensor* StepGraph::output(ggml_tensor* tensor) {
  ggml_set_output(tensor);
  ggml_build_forward_expand(graph_, tensor);
  return tensor;
}

bool StepGraph::wants_only_qkv(int32_t layer) const {
  const int32_t last = shape_.layer_end - 1;
  return layer == last && shape_.n_logit_rows == 0 && !shape_.return_hidden &&
         shape_.norm_end <= last && shape_.kv_layer <= last;
}

bool StepGraph::is_trimmed(int32_t layer) const {
  const int32_t last = model_.config.n_layers - 1;
  return layer == last && shape_.n_logit_rows > 0 && !shape_.return_hidden &&
         shape_.norm_end <= last;
}

void StepGraph::build() {
  const ModelConfig& c = model_.config;
  ggml_tensor* x = hidden_in_;
  if (x == nullptr) {
    x = ggml_get_rows(ctx(), model_.token_embed, tokens_);
    if (c.embed_scale != 1.0F) x = ggml_scale(ctx(), x, c.embed_scale);
  }
  for (int32_t layer = shape_.layer_begin; layer < shape_.layer_end; ++layer) {
    LayerBuilder builder(*this, layer);
    if (wants_only_qkv(layer)) {
      builder.project_only(x);
      x = nullptr;
      break;
    }
    x = model_.arch->layer(builder, x);
    if (layer >= shape_.norm_begin && layer < shape_.norm_end) collect_norm(x);
    if (std::find(shape_.logit_layers.begin(), shape_.logit_layers.end(), layer) !=
        shape_.logit_layers.end())
      add_logits(x, layer);
  }
  if (shape_.kv_layer == shape_.layer_end) LayerBuilder(*this, shape_.kv_layer).project_only(x);
  if (lens_ != nullptr) finish_logits();
  if (norm_sum_ != nullptr) finish_norms();
  if (attention_sum_ != nullptr) output(attention_sum_);
  if (shape_.return_hidden) hidden_out_ = output(x);
  if (x != nullptr) ggml_build_forward_expand(graph_, x);
}

void StepGraph::collect_norm(ggml_tensor* x) {
  ggml_tensor* norm =
      ggml_sqrt(ctx(), ggml_sum_rows(ctx(), ggml_sqr(ctx(), x)));  // ne[1, n_padded]
  norm_sum_ = norm_sum_ == nullptr ? norm : ggml_add(ctx(), norm_sum_, norm);
  ggml_build_forward_expand(graph_, norm_sum_);  // or all residuals would be kept for the end
}

void StepGraph::finish_norms() {
  norm_sum_ = output(
      ggml_scale(ctx(), norm_sum_, 1.0F / static_cast<float>(shape_.norm_end - shape_.norm_begin)));
}

void StepGraph::add_logits(ggml_tensor* x, int32_t layer) {
  const ModelConfig& c = model_.config;
  if (!is_trimmed(layer)) x = ggml_get_rows(ctx(), x, logit_rows_);
  x = ggml_mul(ctx(), ggml_rms_norm(ctx(), x, c.norm_epsilon), model_.output_norm);
  ggml_build_forward_expand(graph_, x);  // or all residuals would be kept for the end
  lens_ = lens_ == nullptr ? x : ggml_concat(ctx(), lens_, x, 1);
}

// One product for all layers: it goes through the whole head.
void StepGraph::finish_logits() {
  const ModelConfig& c = model_.config;
  ggml_tensor* logits = ggml_mul_mat(ctx(), model_.output, lens_);
  if (model_.output_bias != nullptr) logits = ggml_add(ctx(), logits, model_.output_bias);
  if (c.final_logit_softcap > 0.0F) {
    logits =
        ggml_scale(ctx(), ggml_tanh(ctx(), ggml_scale(ctx(), logits, 1.0F / c.final_logit_softcap)),
                   c.final_logit_softcap);
  }
  logits_ = output(logits);
}

namespace {

// The keys that row `i` sees.
TokenRange seen_by(const SequenceRows& rows, size_t i, int32_t window) {
  return {window > 0 ? std::max(0, rows.positions[i] - window + 1) : 0, rows.last_key_of(i) + 1};
}

void fill_row(ggml_tensor* mask, int64_t at, TokenRange seen) {
  auto* row = static_cast<uint16_t*>(mask->data) + at * mask->ne[0];
  std::fill(row, row + mask->ne[0], kMasked);
  std::fill(row + seen.begin, row + seen.end, kVisible);
}

// A row for each of a position's `group` query heads; those that only fill tiles see nothing.
void fill_part(ggml_tensor* mask, const StepShape::Sequence::Part& part, const SequenceRows& rows,
               int32_t group, int32_t window) {
  int64_t at = 0;
  for (int32_t row = 0; row < part.n_rows; ++row) {
    const TokenRange seen =
        seen_by(rows, static_cast<size_t>(part.first_row) + static_cast<size_t>(row), window);
    for (int32_t head = 0; head < group; ++head) fill_row(mask, at++, seen);
  }
  while (at < mask->ne[1]) fill_row(mask, at++, {});
}

}  // namespace

void StepGraph::fill_masks(const StepShape::Sequence& sequence, size_t index,
                           const SequenceRows& rows) {
  for (const Masks& masks : masks_) {
    for (size_t p = 0; p < sequence.parts.size(); ++p) {
      ggml_tensor* mask = masks.parts[index][p];
      if (is_used(mask)) fill_part(mask, sequence.parts[p], rows, shape_.group, masks.window);
    }
    if (!is_used(masks.attention)) continue;
    const auto* which = static_cast<const int32_t*>(attention_rows_->data);
    for (int32_t i = 0; i < shape_.n_attention_rows; ++i)
      fill_row(masks.attention, i, seen_by(rows, static_cast<size_t>(which[i]), masks.window));
  }
}

void StepGraph::set_inputs(std::span<const SequenceRows> sequences, const StepOptions& options) {
  auto* positions = static_cast<int32_t*>(positions_->data);
  std::fill(positions, positions + shape_.n_padded, 0);
  if (tokens_ != nullptr) std::fill_n(static_cast<int32_t*>(tokens_->data), shape_.n_padded, 0);
  // The rows' numbers first: the masks of a probe are filled by them.
  if (is_used(logit_rows_))
    std::copy(options.logit_rows.begin(), options.logit_rows.end(),
              static_cast<int32_t*>(logit_rows_->data));
  if (is_used(attention_rows_)) {
    std::copy(options.attention_rows.begin(), options.attention_rows.end(),
              static_cast<int32_t*>(attention_rows_->data));
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    const StepShape::Sequence& s = shape_.sequences[i];
    const std::span<const int32_t> at = sequences[i].positions;
    std::copy(at.begin(), at.end(), positions + s.first_row);
    if (tokens_ != nullptr) {
      std::copy(sequences[i].tokens.begin(), sequences[i].tokens.end(),
                static_cast<int32_t*>(tokens_->data) + s.first_row);
    }
    auto* slots = static_cast<int64_t*>(slots_[i]->data);
    std::copy(at.begin(), at.end(), slots);
    // Rows that only pad write behind the last slot, each to its own: equal slots would race.
    for (size_t pad = at.size(); pad < static_cast<size_t>(s.n_rows); ++pad)
      slots[pad] = s.kv->n_readable() + static_cast<int64_t>(pad - at.size());
    fill_masks(s, i, sequences[i]);
  }
  if (is_used(in_range_)) {
    const int64_t n_keys = in_range_->ne[0];
    auto* is_in = static_cast<float*>(in_range_->data);
    std::fill(is_in, is_in + ggml_nelements(in_range_), 0.0F);
    for (const TokenRange& range : options.attention_ranges) {
      const int64_t end = std::min<int64_t>(range.end, n_keys);
      for (int64_t key = range.begin; key < end; ++key) is_in[key] = 1.0F;
      is_in += n_keys;
    }
  }
  if (hidden_in_ != nullptr) {
    auto* hidden = static_cast<float*>(hidden_in_->data);
    std::copy(options.hidden.begin(), options.hidden.end(), hidden);
    std::fill(hidden + options.hidden.size(), hidden + ggml_nelements(hidden_in_), 0.0F);
  }
}

void StepGraph::read_outputs(StepResult& result) const {
  const ModelConfig& c = model_.config;
  const auto rows = [this](const ggml_tensor* t, size_t width) {
    const auto* data = static_cast<const float*>(t->data);
    return std::vector<float>(data, data + width * static_cast<size_t>(shape_.n_rows));
  };
  if (logits_ != nullptr) {
    const auto* data = static_cast<const float*>(logits_->data);
    result.logits.assign(data, data + ggml_nelements(logits_));
  }
  if (hidden_out_ != nullptr) result.hidden = rows(hidden_out_, static_cast<size_t>(c.embed_dim));
  if (norm_sum_ != nullptr) result.norms = rows(norm_sum_, 1);
  if (k_out_ != nullptr) {
    result.k = rows(k_out_, static_cast<size_t>(c.kv_dim()));
    result.v = rows(v_out_, static_cast<size_t>(c.kv_dim()));
  }
  const size_t row_bytes = c.kv_geometry().layer_bytes(1);
  for (const ggml_tensor* t : captured_) {
    const auto* data = static_cast<const std::byte*>(t->data);
    result.captured.insert(result.captured.end(), data,
                           data + row_bytes * static_cast<size_t>(shape_.n_rows));
  }
  if (attention_sum_ != nullptr) read_attention(result);
  if (!range_sums_.empty()) read_range_attention(result);
}

void StepGraph::read_attention(StepResult& result) const {
  const ModelConfig& c = model_.config;
  const StepShape::Sequence& s = shape_.sequences.front();
  const float scale =
      1.0F / static_cast<float>(static_cast<size_t>(c.n_heads) * shape_.attention_layers.size());
  const auto n_rows = static_cast<size_t>(shape_.n_attention_rows);
  const auto n_keys = static_cast<size_t>(result.n_keys);
  const auto width = static_cast<size_t>(s.n_keys);
  const auto* sums = static_cast<const float*>(attention_sum_->data);
  result.attention.assign(n_rows * n_keys, 0.0F);
  for (size_t head = 0; head < static_cast<size_t>(c.n_heads); ++head) {
    for (size_t row = 0; row < n_rows; ++row) {
      const float* from = sums + (head * n_rows + row) * width;
      float* to = result.attention.data() + row * n_keys;
      for (size_t key = 0; key < n_keys; ++key) to[key] += from[key] * scale;
    }
  }
}

void StepGraph::read_range_attention(StepResult& result) const {
  const auto n_heads = static_cast<size_t>(model_.config.n_heads);
  const auto n_ranges = static_cast<size_t>(shape_.n_attention_ranges);
  const float share = 1.0F / static_cast<float>(n_heads);
  std::vector<float>& out = result.range_attention;
  for (const ggml_tensor* t : range_sums_) {
    const size_t n = n_ranges * static_cast<size_t>(t->ne[1]);
    const auto* sums = static_cast<const float*>(t->data);
    out.resize(out.size() + n, 0.0F);
    float* to = out.data() + (out.size() - n);
    for (size_t head = 0; head < n_heads; ++head) {
      for (size_t i = 0; i < n; ++i) to[i] += share * sums[head * n + i];
    }
  }
}

}  // namespace tessera
