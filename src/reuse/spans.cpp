#include "reuse/spans.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace tessera {
namespace {

constexpr double kSeedShare = 0.85;
constexpr double kLargerShare = 1.2;

int32_t share_of(double share, int32_t n) {
  return static_cast<int32_t>(std::ceil(share * n - 1e-6));
}

std::vector<int32_t> tokens_of(std::span<const TokenRange> runs) {
  std::vector<int32_t> tokens;
  for (const TokenRange& run : runs) {
    for (int32_t token = run.begin; token < run.end; ++token) tokens.push_back(token);
  }
  return tokens;
}

// Scores of the candidates on a scale from 0 to 1; the others are left 0.
std::vector<double> normalised(std::span<const float> value, std::span<const int32_t> tokens,
                               double clip_quantile) {
  std::vector<float> sorted;
  sorted.reserve(tokens.size());
  for (const int32_t token : tokens) sorted.push_back(value[static_cast<size_t>(token)]);
  std::sort(sorted.begin(), sorted.end());
  const auto last = static_cast<double>(sorted.size() - 1);
  const double low = sorted.front();
  const float clipped = sorted[static_cast<size_t>(std::floor(clip_quantile * last + 1e-6))];
  const double high = clipped > low ? clipped : sorted.back();  // no scale is left below it
  std::vector<double> out(value.size(), 0.0);
  if (!(high > low)) return out;  // all alike: one span after the other
  for (const int32_t token : tokens) {
    const double v = std::min<double>(value[static_cast<size_t>(token)], high);
    out[static_cast<size_t>(token)] = (v - low) / (high - low);
  }
  return out;
}

// |b - a| / a, the lowest score of all included.
double relative_step(double a, double b) {
  constexpr double kLeast = 1e-6;
  return std::abs(b - a) / std::max(a, kLeast);
}

std::vector<TokenRange> spans_of(std::span<const double> score, std::span<const TokenRange> runs,
                                 const SpanOptions& options) {
  std::vector<TokenRange> spans;
  for (const TokenRange& run : runs) {
    for (int32_t token = run.begin; token < run.end; ++token) {
      const auto at = static_cast<size_t>(token);
      const bool starts = token == run.begin || spans.back().size() >= options.max_tokens ||
                          relative_step(score[at - 1], score[at]) >= options.smooth;
      if (starts) spans.push_back({token, token});
      spans.back().end = token + 1;
    }
  }
  return spans;
}

struct Completed {
  std::vector<bool> is_chosen;    // per token
  std::vector<double> span_mean;  // per token, of the scores as they are
};

Completed complete(std::span<const float> value, std::span<const int32_t> seeds,
                   std::span<const TokenRange> spans, double cover) {
  Completed out = {std::vector<bool>(value.size(), false), std::vector<double>(value.size(), 0.0)};
  for (const int32_t seed : seeds) out.is_chosen[static_cast<size_t>(seed)] = true;
  for (const TokenRange& span : spans) {
    double sum = 0;
    int32_t n_chosen = 0;
    for (int32_t token = span.begin; token < span.end; ++token) {
      sum += value[static_cast<size_t>(token)];
      n_chosen += out.is_chosen[static_cast<size_t>(token)] ? 1 : 0;
    }
    const bool is_whole = n_chosen >= cover * span.size() - 1e-9 && n_chosen > 0;
    for (int32_t token = span.begin; token < span.end; ++token) {
      out.span_mean[static_cast<size_t>(token)] = sum / span.size();
      if (is_whole) out.is_chosen[static_cast<size_t>(token)] = true;
    }
  }
  return out;
}

std::vector<float> preference_of(std::span<const int32_t> best_first, size_t n_tokens) {
  std::vector<float> preference(n_tokens, 0.0F);
  for (size_t rank = 0; rank < best_first.size(); ++rank)
    preference[static_cast<size_t>(best_first[rank])] =
        static_cast<float>(best_first.size() - rank);
  return preference;
}

}  // namespace

int32_t span_limit(const SpanOptions& options, int32_t budget) {
  return options.reading == SpanReading::kLarger ? share_of(kLargerShare, budget) : budget;
}

std::vector<float> span_preference(std::span<const float> value, std::span<const TokenRange> runs,
                                   int32_t budget, const SpanOptions& options) {
  std::vector<int32_t> order = tokens_of(runs);
  if (order.empty()) return std::vector<float>(value.size(), 0.0F);
  CHECK(static_cast<size_t>(order.back()) < value.size());
  const std::vector<double> score = normalised(value, order, options.clip_quantile);
  const auto by_value = [&](int32_t a, int32_t b) {
    const float of_a = value[static_cast<size_t>(a)], of_b = value[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  std::sort(order.begin(), order.end(), by_value);
  if (options.reading == SpanReading::kNone) return preference_of(order, value.size());

  const bool is_seeded = options.reading == SpanReading::kSeeded;
  const int32_t n_seeds = is_seeded ? share_of(kSeedShare, budget) : budget;
  const auto n = std::min(order.size(), static_cast<size_t>(std::max(0, n_seeds)));
  const Completed set =
      complete(value, std::span(order).first(n), spans_of(score, runs, options), options.cover);
  // The larger set is what was completed and no more: where no span is, it is the budget's.
  if (options.reading == SpanReading::kLarger)
    std::erase_if(order, [&](int32_t token) { return !set.is_chosen[static_cast<size_t>(token)]; });
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    if (set.is_chosen[i] != set.is_chosen[j]) return bool(set.is_chosen[i]);
    if (is_seeded && set.span_mean[i] != set.span_mean[j])
      return set.span_mean[i] > set.span_mean[j];
    return by_value(a, b);
  });
  return preference_of(order, value.size());
}

}  // namespace tessera
