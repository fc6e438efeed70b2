#include "eval/attention_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "base/error.h"

namespace tessera {
namespace {

constexpr ShareField kShareFields[] = {
    {"preamble", &AttentionShares::preamble},
    {"self", &AttentionShares::self},
    {"predecessor", &AttentionShares::predecessor},
    {"strongest_other", &AttentionShares::strongest_other},
    {"rest", &AttentionShares::rest},
    {"sink", &AttentionShares::sink},
    {"predecessor_among", &AttentionShares::predecessor_among},
    {"sink_among", &AttentionShares::sink_among},
    {"equal_among", &AttentionShares::equal_among},
};

constexpr size_t kFirstJudged = 3;  // the first chunk with two earlier ones

// Above an equal share by so much that lengths and chance do not make up for it.
constexpr double kClearlyAbove = 1.25;
constexpr double kClearlyMoreOften = 0.2;  // than by chance, as a share of the chunks

void add_to(AttentionShares& sum, const AttentionShares& shares) {
  for (const ShareField& field : kShareFields) sum.*field.value += shares.*field.value;
}

AttentionShares divided(AttentionShares sum, size_t n) {
  for (const ShareField& field : kShareFields) sum.*field.value /= static_cast<double>(n);
  return sum;
}

template <typename Value>
double mean_over(std::span<const LayerAttention> layers, LayerRange range, Value value) {
  double sum = 0;
  for (int32_t layer = range.begin; layer < range.end; ++layer)
    sum += value(layers[static_cast<size_t>(layer)]);
  return sum / range.size();
}

size_t n_chunks_of(const AttentionMap& map) { return map.n_segments - 2; }

}  // namespace

std::span<const ShareField> share_fields() { return kShareFields; }

void check_layers_to_map(const ModelConfig& config) {
  if (config.n_layers >= kLeastAttentionLayers) return;
  throw Error(ErrorCode::kModel,
              fmt::format("attention - the model has {} layers, at least {} are needed to tell "
                          "early from late ones - take a deeper model",
                          config.n_layers, kLeastAttentionLayers));
}

void check_chunks_to_map(const Prompt& prompt) {
  const auto is_chunk = [](const Segment& s) { return s.kind == SegmentKind::kChunk; };
  const auto n_chunks =
      static_cast<size_t>(std::count_if(prompt.segments.begin(), prompt.segments.end(), is_chunk));
  if (n_chunks < kLeastAttentionChunks) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("attention - the prompt has {} passages, at least {} are needed to "
                            "tell a predecessor from a sink - give more passages",
                            n_chunks, kLeastAttentionChunks));
  }
  CHECK(prompt.segments.size() == n_chunks + 2);
  CHECK(prompt.segments.front().kind == SegmentKind::kPreamble);
  CHECK(prompt.segments.back().kind == SegmentKind::kQuery);
}

AttentionMap segment_means(std::span<const float> range_attention,
                           std::span<const Segment> segments, size_t n_layers) {
  const size_t n = segments.size();
  const auto n_rows = static_cast<size_t>(segments.back().range.end);
  CHECK(segments.front().range.begin == 0 && range_attention.size() == n_layers * n_rows * n);
  AttentionMap out = {n_layers, n, std::vector<double>(n_layers * n * n)};
  const auto add_rows = [&](size_t layer, size_t from) {
    const TokenRange rows = segments[from].range;
    CHECK(rows.size() > 0);
    const auto n_of_segment = static_cast<double>(rows.size());
    double* to = out.mass.data() + (layer * n + from) * n;
    const size_t first = (layer * n_rows + static_cast<size_t>(rows.begin)) * n;
    const size_t n_values = static_cast<size_t>(rows.size()) * n;
    for (size_t i = 0; i < n_values; ++i) to[i % n] += range_attention[first + i] / n_of_segment;
  };
  for (size_t layer = 0; layer < n_layers; ++layer) {
    for (size_t from = 0; from < n; ++from) add_rows(layer, from);
  }
  return out;
}

AttentionMap attention_map(Engine& engine, const Prompt& prompt, const std::stop_token& stop) {
  const ModelConfig& config = engine.decoder().config();
  check_layers_to_map(config);
  check_chunks_to_map(prompt);
  std::vector<int32_t> positions(prompt.ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  StepOptions options;
  options.attention_rows = positions;
  options.attention_layers.resize(static_cast<size_t>(config.n_layers));
  std::iota(options.attention_layers.begin(), options.attention_layers.end(), 0);
  for (const Segment& segment : prompt.segments) options.attention_ranges.push_back(segment.range);
  engine.kv().clear();
  const StepResult result =
      engine.decoder().prefill({&engine.kv(), prompt.ids, positions}, options, stop);
  return segment_means(result.range_attention, prompt.segments, options.attention_layers.size());
}

size_t strongest_chunk(const AttentionMap& map, size_t layer, size_t from, size_t first) {
  CHECK(first < from);
  size_t best = first;
  for (size_t to = first + 1; to < from; ++to) {
    if (map.at(layer, from, to) > map.at(layer, from, best)) best = to;
  }
  return best;
}

AttentionShares shares_of(const AttentionMap& map, size_t layer, size_t from) {
  CHECK(from >= kFirstJudged);
  const size_t before = from - 1;
  double earlier = 0;
  AttentionShares out;
  for (size_t to = 1; to < from; ++to) {
    earlier += map.at(layer, from, to);
    if (to != before) out.strongest_other = std::max(out.strongest_other, map.at(layer, from, to));
  }
  out.preamble = map.at(layer, from, 0);
  out.self = map.at(layer, from, from);
  out.predecessor = map.at(layer, from, before);
  out.rest = std::max(0.0, earlier - out.predecessor - out.strongest_other);
  out.sink = std::max(out.predecessor, out.strongest_other);
  out.equal_among = 1.0 / static_cast<double>(before);
  if (earlier > 0) {  // a window may end before any of them
    out.predecessor_among = out.predecessor / earlier;
    out.sink_among = out.sink / earlier;
  }
  return out;
}

void AttentionSummary::add(const AttentionMap& map, const AttentionMap* rotated) {
  CHECK(map.n_layers == sums_.size() && n_chunks_of(map) >= kLeastAttentionChunks);
  const size_t n_chunks = n_chunks_of(map);
  for (size_t layer = 0; layer < sums_.size(); ++layer) {
    LayerSums& sums = sums_[layer];
    add_to(sums.query, shares_of(map, layer, map.n_segments - 1));
    for (size_t chunk = kFirstJudged; chunk <= n_chunks; ++chunk) {
      add_to(sums.chunks, shares_of(map, layer, chunk));
      const size_t sink = strongest_chunk(map, layer, chunk);
      sums.predecessor_is_sink += sink == chunk - 1 ? 1 : 0;
      sums.sink_agreement += sink == strongest_chunk(map, layer, chunk - 1) ? 1 : 0;
    }
  }
  ++n_prompts_;
  n_chunks_ += n_chunks - kFirstJudged + 1;
  if (rotated != nullptr && n_chunks >= kLeastDriftChunks) add_drift(map, *rotated);
  MeanMap& sum = maps_[map.n_segments];
  if (sum.n_prompts == 0)
    sum.map = {map.n_layers, map.n_segments, std::vector<double>(map.mass.size())};
  ++sum.n_prompts;
  std::transform(map.mass.begin(), map.mass.end(), sum.map.mass.begin(), sum.map.mass.begin(),
                 std::plus<>());
}

// In the rotated prompt the last chunk is the first, and every other one stands a place further
// back behind the same chunks as before.
void AttentionSummary::add_drift(const AttentionMap& map, const AttentionMap& rotated) {
  CHECK(rotated.n_segments == map.n_segments && rotated.n_layers == map.n_layers);
  for (size_t chunk = kFirstJudged; chunk < n_chunks_of(map); ++chunk) {
    ++n_compared_;
    chance_ += 1.0 / static_cast<double>(chunk - 1);
    for (size_t layer = 0; layer < sums_.size(); ++layer) {
      const size_t expected = strongest_chunk(map, layer, chunk) + 1;
      const bool stays = strongest_chunk(rotated, layer, chunk + 1, 2) == expected;
      sums_[layer].sink_stays += stays ? 1 : 0;
    }
  }
}

AttentionReport AttentionSummary::report() const {
  CHECK(n_prompts_ > 0);
  AttentionReport out;
  out.n_prompts = n_prompts_;
  out.n_chunks = n_chunks_;
  out.n_compared = n_compared_;
  const auto n_chunks = static_cast<double>(n_chunks_);
  const auto n_compared = static_cast<double>(n_compared_);
  if (n_compared_ > 0) out.stays_by_chance = chance_ / n_compared;
  for (const LayerSums& sums : sums_) {
    LayerAttention layer;
    layer.chunks = divided(sums.chunks, n_chunks_);
    layer.query = divided(sums.query, n_prompts_);
    layer.predecessor_is_sink = sums.predecessor_is_sink / n_chunks;
    layer.sink_agreement = sums.sink_agreement / n_chunks;
    if (n_compared_ > 0) layer.sink_stays = sums.sink_stays / n_compared;
    out.layers.push_back(layer);
  }
  for (const auto& [n_segments, sum] : maps_) {
    out.maps.push_back(sum);
    for (double& value : out.maps.back().map.mass) value /= static_cast<double>(sum.n_prompts);
  }
  return out;
}

int32_t turn_layer(std::span<const double> predecessor_is_sink) {
  for (size_t layer = 0; layer + 1 < predecessor_is_sink.size(); ++layer) {
    const std::span<const double> later = predecessor_is_sink.subspan(layer + 1);
    const double sum = std::accumulate(later.begin(), later.end(), 0.0);
    if (predecessor_is_sink[layer] < 0.5 && sum < 0.5 * static_cast<double>(later.size()))
      return static_cast<int32_t>(layer);
  }
  return -1;
}

int32_t sink_layer(int32_t turn, std::span<const LayerConfig> layers) {
  const auto n_layers = static_cast<int32_t>(layers.size());
  const int32_t wanted = turn >= 0 ? turn : n_layers / 2;
  const auto is_global = [&](int32_t layer) {
    return layers[static_cast<size_t>(layer)].sliding_window == 0;
  };
  for (int32_t layer = wanted; layer < n_layers; ++layer) {
    if (is_global(layer)) return layer;
  }
  for (int32_t layer = wanted - 1; layer >= 0; --layer) {
    if (is_global(layer)) return layer;
  }
  return wanted;
}

bool AttentionReading::early_is_local() const {
  return early_predecessor >= kClearlyAbove * early_equal;
}

bool AttentionReading::late_has_sink() const {
  return late_other > 0.5 && late_sink >= kClearlyAbove * late_equal && late_stays &&
         stays_by_chance && *late_stays >= *stays_by_chance + kClearlyMoreOften;
}

AttentionReading read_attention(const AttentionReport& report, const ModelConfig& config) {
  const std::span<const LayerAttention> layers = report.layers;
  CHECK(layers.size() == config.layers.size() && config.n_layers >= kLeastAttentionLayers);
  AttentionReading out;
  out.early = {0, config.n_layers / 2};
  out.late = {config.n_layers / 2, config.n_layers};
  out.early_predecessor = mean_over(
      layers, out.early, [](const LayerAttention& l) { return l.chunks.predecessor_among; });
  out.early_equal =
      mean_over(layers, out.early, [](const LayerAttention& l) { return l.chunks.equal_among; });
  out.late_other = mean_over(layers, out.late,
                             [](const LayerAttention& l) { return 1 - l.predecessor_is_sink; });
  out.late_sink =
      mean_over(layers, out.late, [](const LayerAttention& l) { return l.chunks.sink_among; });
  out.late_equal =
      mean_over(layers, out.late, [](const LayerAttention& l) { return l.chunks.equal_among; });
  out.late_agreement =
      mean_over(layers, out.late, [](const LayerAttention& l) { return l.sink_agreement; });
  out.stays_by_chance = report.stays_by_chance;
  if (layers.front().sink_stays) {
    out.late_stays = mean_over(layers, out.late,
                               [](const LayerAttention& l) { return l.sink_stays.value_or(0); });
  }

  std::vector<double> predecessor_is_sink;
  for (const LayerAttention& layer : layers)
    predecessor_is_sink.push_back(layer.predecessor_is_sink);
  if (out.early_is_local()) out.turn_layer = turn_layer(predecessor_is_sink);
  out.sink_layer = sink_layer(out.turn_layer, config.layers);
  return out;
}

std::string verdict_text(const AttentionReading& r) {
  const bool is_local = r.early_is_local(), has_sink = r.late_has_sink();
  const std::string_view verdict = is_local && has_sink   ? "holds"
                                   : is_local || has_sink ? "holds in part"
                                                          : "does not hold";
  const std::string stays =
      r.late_stays && r.stays_by_chance
          ? fmt::format("stays the same in another order for {:.3f} of them ({:.3f} by chance)",
                        *r.late_stays, *r.stays_by_chance)
          : "was not compared in another order, for which prompts have too few chunks";
  return fmt::format(
      "The paper's picture {}: in layers {} to {} the predecessor draws {:.3f} of the attention "
      "that goes to earlier chunks, {} an equal share of {:.3f}; in layers {} to {} the strongest "
      "earlier chunk draws {:.3f} of it against an equal share of {:.3f}, is another than the "
      "predecessor for {:.3f} of the chunks, and {}: {}.",
      verdict, r.early.begin, r.early.end - 1, r.early_predecessor,
      is_local ? "clearly above" : "not clearly above", r.early_equal, r.late.begin, r.late.end - 1,
      r.late_sink, r.late_equal, r.late_other, stays, has_sink ? "a sink" : "no clear sink");
}

}  // namespace tessera
