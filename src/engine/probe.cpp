#include "engine/probe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/error.h"

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

// Layers of the upper half that see the whole prompt.
std::vector<int32_t> upper_global_layers(const ModelConfig& c) {
  std::vector<int32_t> layers;
  for (int32_t layer = c.n_layers / 2; layer < c.n_layers; ++layer) {
    if (c.layers[static_cast<size_t>(layer)].sliding_window == 0) layers.push_back(layer);
  }
  return layers;
}

// Of a long question the last rows speak for all: explicit attention of every row would take
// rows x keys x heads floats.
constexpr int32_t kMaxQueryRows = 128;

ProbeResult query_attention(const ProbeInput& in, const std::stop_token& stop) {
  const ModelConfig& c = in.decoder.config();
  StepOptions options;
  options.attention_layers = upper_global_layers(c);
  if (options.attention_layers.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                "query attention - every upper layer of the model has a sliding window - use "
                "another policy");
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
  out.rows = static_cast<double>(rows.size()) * options.layers.end / c.n_layers;
  return out;
}

// The share of a layer that only makes K and V of a row, by multiplications with weights.
double kv_share_of_layer(const ModelConfig& c) {
  const double kv = 2.0 * c.embed_dim * c.kv_dim();
  const double attention = 2.0 * c.embed_dim * c.n_heads * c.head_dim + kv;
  return kv / (attention + 3.0 * c.embed_dim * c.ffn_dim);
}

float from_half(std::span<const std::byte> halves, size_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, halves.data() + 2 * index, 2);
  return static_cast<float>(std::bit_cast<_Float16>(bits));
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
  out.score.assign(in.prompt.ids.size(), 0.0F);
  const auto width = static_cast<size_t>(c.kv_dim());
  size_t row = 0;
  for (size_t i = 0; i < in.prompt.segments.size(); ++i) {
    const Segment& s = in.prompt.segments[i];
    if (s.match == Match::kExact) continue;
    for (int32_t at = s.range.begin; at < s.range.end; ++at, ++row) {
      if (!is_approximate(s)) continue;
      const std::span<const std::byte> stored = in.found[i].chunk->v(1);
      const auto token = static_cast<size_t>(at - s.range.begin);
      double sum = 0;
      for (size_t d = 0; d < width; ++d) {
        const double difference = result.v[row * width + d] - from_half(stored, token * width + d);
        sum += difference * difference;
      }
      out.score[static_cast<size_t>(at)] = static_cast<float>(sum);
    }
  }
  out.rows = static_cast<double>(out.positions.size()) * (1.0 + kv_share_of_layer(c)) / c.n_layers;
  return out;
}

// Sum over both matrices of all layers of |new - old|^2 / |new|^2, for one token.
double relative_deviation(const KvGeometry& geometry, std::span<const std::byte> whole,
                          size_t n_rows, size_t row, const KvChunk& chunk, size_t token) {
  const auto width = static_cast<size_t>(geometry.kv_dim);
  double sum = 0;
  for (size_t matrix = 0; matrix < 2 * static_cast<size_t>(geometry.n_layers); ++matrix) {
    const auto layer = static_cast<int32_t>(matrix / 2);
    const std::span<const std::byte> stored = matrix % 2 == 0 ? chunk.k(layer) : chunk.v(layer);
    double difference = 0, norm = 0;
    for (size_t d = 0; d < width; ++d) {
      const double now = from_half(whole, (matrix * n_rows + row) * width + d);
      const double then = from_half(stored, token * width + d);
      difference += (now - then) * (now - then);
      norm += now * now;
    }
    if (norm > 0) sum += difference / norm;
  }
  return sum;
}

ProbeResult kv_deviation(const ProbeInput& in, const std::stop_token& stop) {
  const size_t n = in.prompt.ids.size();
  std::vector<int32_t> positions(n);
  std::iota(positions.begin(), positions.end(), 0);
  StepOptions options;
  options.capture_kv = true;
  const StepResult result = in.decoder.prefill({&in.kv, in.prompt.ids, positions}, options, stop);
  ProbeResult out;
  out.score.assign(n, 0.0F);
  for (size_t i = 0; i < in.prompt.segments.size(); ++i) {
    const Segment& s = in.prompt.segments[i];
    if (!is_approximate(s)) continue;
    for (int32_t at = s.range.begin; at < s.range.end; ++at) {
      out.score[static_cast<size_t>(at)] = static_cast<float>(relative_deviation(
          in.decoder.config().kv_geometry(), result.captured, n, static_cast<size_t>(at),
          *in.found[i].chunk, static_cast<size_t>(at - s.range.begin)));
    }
  }
  out.rows = static_cast<double>(n);
  return out;
}

}  // namespace

ProbeResult run_probe(Evidence evidence, const ProbeInput& input, const std::stop_token& stop) {
  if (evidence == Evidence::kNone || n_loaded_tokens(input.prompt.segments) == 0) return {};
  switch (evidence) {
    case Evidence::kQueryAttention:
      return query_attention(input, stop);
    case Evidence::kValueDeviation:
      return value_deviation(input, stop);
    case Evidence::kKvDeviation:
      return kv_deviation(input, stop);
    case Evidence::kNone:
      break;
  }
  return {};
}

}  // namespace tessera
