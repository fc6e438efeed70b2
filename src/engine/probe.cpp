#include "engine/probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "engine/kv_deviation.h"

namespace tessera {
namespace {

std::vector<int32_t> tokens_at(const Prompt& prompt, std::span<const int32_t> positions) {
  std::vector<int32_t> tokens;
  tokens.reserve(positions.size());
  for (const int32_t at : positions) tokens.push_back(prompt.ids[static_cast<size_t>(at)]);
  return tokens;
}

template <typename Wanted>
std::vector<int32_t> positions_of(const Prompt& prompt, Wanted wanted) {
  std::vector<int32_t> positions;
  for (const Segment& s : prompt.segments) {
    for (int32_t at = s.range.begin; wanted(s) && at < s.range.end; ++at) positions.push_back(at);
  }
  return positions;
}

std::vector<int32_t> global_layers(const ModelConfig& c, LayerRange range) {
  std::vector<int32_t> layers;
  for (int32_t layer = range.begin; layer < range.end; ++layer) {
    if (c.layers[static_cast<size_t>(layer)].sliding_window == 0) layers.push_back(layer);
  }
  return layers;
}

// Of a long question the last rows speak for all: explicit attention of every row would take
// rows x keys x heads floats.
constexpr int32_t kMaxQueryRows = 128;

// The shares of a layer that make K and V of a row, and its query, by multiplications with weights.
struct ProjectionShares {
  double kv = 0, query = 0;
};
ProjectionShares projection_shares(const ModelConfig& c) {
  const double query = static_cast<double>(c.n_heads) * c.head_dim;
  const double kv = 2.0 * c.kv_dim();
  const double all = 2.0 * query + kv + 3.0 * c.ffn_dim;  // each times embed_dim
  return {kv / all, query / all};
}

// Of one V from the stored one of the same token.
float squared_distance(std::span<const float> now, std::span<const std::byte> stored,
                       size_t token) {
  double sum = 0;
  for (size_t d = 0; d < now.size(); ++d) {
    const double difference = now[d] - half_at(stored, token * now.size() + d);
    sum += difference * difference;
  }
  return static_cast<float>(sum);
}

// `v` holds V at layer 1 of every row that is not exact: [rows, kv_dim].
std::vector<float> deviations(const ProbeInput& in, std::span<const float> v, size_t kv_dim) {
  std::vector<float> score(in.prompt.ids.size(), 0.0F);
  size_t row = 0;
  for (size_t i = 0; i < in.prompt.segments.size(); ++i) {
    const Segment& s = in.prompt.segments[i];
    if (s.match == Match::kExact) continue;
    for (int32_t at = s.range.begin; at < s.range.end; ++at, ++row) {
      if (!is_approximate(s)) continue;
      score[static_cast<size_t>(at)] =
          squared_distance(v.subspan(row * kv_dim, kv_dim), in.found[i].chunk->v(1),
                           static_cast<size_t>(at - s.range.begin));
    }
  }
  return score;
}

ProbeResult value_deviation(const ProbeInput& in, const std::stop_token& stop) {
  const ModelConfig& c = in.decoder.config();
  if (c.n_layers < 2) {
    throw Error(ErrorCode::kInvalidRequest,
                "value deviation - the model has one layer only - use another policy");
  }
  ProbeResult out;
  out.resume_at = 1;
  out.positions =
      positions_of(in.prompt, [](const Segment& s) { return s.match != Match::kExact; });
  const std::vector<int32_t> tokens = tokens_at(in.prompt, out.positions);
  StepOptions options;
  options.layers = {0, 1};
  options.return_hidden = true;
  options.kv_layer = 1;
  StepResult result = in.decoder.prefill({&in.kv, tokens, out.positions}, options, stop);
  out.hidden = std::move(result.hidden);
  out.score = deviations(in, result.v, static_cast<size_t>(c.kv_dim()));
  out.rows =
      static_cast<double>(out.positions.size()) * (1.0 + projection_shares(c).kv) / c.n_layers;
  return out;
}

// In layer 0 a row's attention depends on nothing that reuse approximates: its K and Q follow from
// the token and its place. So the projections are enough, and no other layer is touched.
ProbeResult outward_attention(const ProbeInput& in, const std::stop_token& stop) {
  const ModelConfig& c = in.decoder.config();
  const std::vector<Segment>& segments = in.prompt.segments;
  const auto last = std::find_if(segments.rbegin(), segments.rend(), is_approximate);
  const int32_t end = last->range.end;  // what stands behind is looked at by none of them
  const auto is_open = [end](const Segment& s) {
    return s.match != Match::kExact && s.range.end <= end;
  };
  const std::vector<int32_t> rows = positions_of(in.prompt, is_open);
  StepOptions options;
  options.layers = {0, 1};
  options.attention_layers = {0};
  std::vector<size_t> chunk_of;  // per attention row
  int32_t row = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    options.attention_ranges.push_back(s.range);
    for (int32_t at = s.range.begin; is_open(s) && at < s.range.end; ++at, ++row) {
      if (!is_approximate(s)) continue;
      options.attention_rows.push_back(row);
      chunk_of.push_back(i);
    }
  }
  const std::vector<int32_t> tokens = tokens_at(in.prompt, rows);
  const StepResult result = in.decoder.prefill({&in.kv, tokens, rows}, options, stop);

  ProbeResult out;
  out.score.assign(in.prompt.ids.size(), 0.0F);
  for (size_t i = 0; i < chunk_of.size(); ++i) {
    const auto position = static_cast<size_t>(rows[static_cast<size_t>(options.attention_rows[i])]);
    for (size_t to = 0; to < chunk_of[i]; ++to) {
      if (segments[to].kind == SegmentKind::kChunk)
        out.score[position] += result.range_attention[i * segments.size() + to];
    }
  }
  const ProjectionShares shares = projection_shares(c);
  out.rows = static_cast<double>(rows.size()) * (shares.kv + shares.query) / c.n_layers;
  return out;
}

// Summed over both matrices of all layers.
double relative_deviation(const KvGeometry& geometry, const KvOfRow& now, const KvOfRow& then) {
  double sum = 0;
  for (size_t matrix = 0; matrix < 2 * static_cast<size_t>(geometry.n_layers); ++matrix)
    sum += deviation_between(geometry, now, then, matrix).relative();
  return sum;
}

ProbeResult kv_deviation(const ProbeInput& in, const std::stop_token& stop) {
  const size_t n = in.prompt.ids.size();
  const std::vector<std::byte> full = full_kv(in.decoder, in.kv, in.prompt, stop);
  ProbeResult out;
  out.score.assign(n, 0.0F);
  for (size_t i = 0; i < in.prompt.segments.size(); ++i) {
    const Segment& s = in.prompt.segments[i];
    if (!is_approximate(s)) continue;
    for (int32_t at = s.range.begin; at < s.range.end; ++at) {
      const KvOfRow now = {full, n, static_cast<size_t>(at)};
      const KvOfRow then = {in.found[i].chunk->payload(), static_cast<size_t>(s.range.size()),
                            static_cast<size_t>(at - s.range.begin)};
      out.score[static_cast<size_t>(at)] =
          static_cast<float>(relative_deviation(in.decoder.config().kv_geometry(), now, then));
    }
  }
  out.rows = static_cast<double>(n);
  return out;
}

}  // namespace

ProbeResult query_attention(const ProbeInput& in, LayerRange layers, const std::stop_token& stop) {
  const ModelConfig& c = in.decoder.config();
  StepOptions options;
  options.attention_layers = global_layers(c, layers);
  if (options.attention_layers.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("query attention - layers {}-{} of the model all have a sliding window "
                            "- give others or use another policy",
                            layers.begin, layers.end - 1));
  }
  options.layers = {0, options.attention_layers.back() + 1};
  const Segment& query = in.prompt.segments.back();
  CHECK(query.kind == SegmentKind::kQuery);
  const std::vector<int32_t> rows =
      positions_of(in.prompt, [](const Segment& s) { return s.match == Match::kMiss; });
  const int32_t first = std::max(query.range.begin, query.range.end - kMaxQueryRows);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= first) options.attention_rows.push_back(static_cast<int32_t>(i));
  }
  const std::vector<int32_t> tokens = tokens_at(in.prompt, rows);
  const StepResult result = in.decoder.prefill({&in.kv, tokens, rows}, options, stop);

  ProbeResult out;
  out.score.assign(in.prompt.ids.size(), 0.0F);
  const auto n_keys = static_cast<size_t>(result.n_keys);
  const auto share = 1.0F / static_cast<float>(options.attention_rows.size());
  for (size_t row = 0; row < options.attention_rows.size(); ++row) {
    for (size_t key = 0; key < n_keys; ++key)
      out.score[key] += share * result.attention[row * n_keys + key];
  }
  // Of the last layer there is no more than the projections.
  const ProjectionShares last = projection_shares(c);
  out.rows = static_cast<double>(rows.size()) * (options.layers.end - 1 + last.kv + last.query) /
             c.n_layers;
  return out;
}

ProbeResult run_probe(Evidence evidence, const LayerPart& part, const ProbeInput& input,
                      const std::stop_token& stop) {
  if (n_loaded_tokens(input.prompt.segments) == 0) return {};
  switch (evidence) {
    case Evidence::kQueryAttention:
      return query_attention(input, layers_of(part, input.decoder.config().n_layers), stop);
    case Evidence::kValueDeviation:
      return value_deviation(input, stop);
    case Evidence::kOutwardAttention:
      return outward_attention(input, stop);
    case Evidence::kKvDeviation:
      return kv_deviation(input, stop);
    case Evidence::kNone:
    case Evidence::kScorerAttention:
    case Evidence::kScorerNorms:
    case Evidence::kStoredScorerNorms:
      break;
  }
  return {};
}

}  // namespace tessera
