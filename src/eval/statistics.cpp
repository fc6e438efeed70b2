#include "eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/check.h"
#include "base/random.h"
#include "eval/metrics.h"

namespace tessera {
namespace {

constexpr double kTail = 0.025;  // on each side of a 95% interval

double value_of(Statistic statistic, const std::vector<double>& values) {
  if (statistic == Statistic::kMedian) return median(values);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Resamples::Resamples(size_t n_questions, size_t n_resamples, uint64_t seed)
    : n_questions_(n_questions), drawn_(n_questions * n_resamples) {
  CHECK(n_questions > 0 && n_resamples > 0);
  std::mt19937_64 random(seed);
  for (uint32_t& index : drawn_) index = static_cast<uint32_t>(draw_below(random, n_questions));
}

Estimate estimate(std::span<const double> values, Statistic statistic, const Resamples& resamples) {
  CHECK(values.size() == resamples.n_questions());
  std::vector<double> drawn(values.begin(), values.end());
  Estimate out;
  out.n = values.size();
  out.value = value_of(statistic, drawn);
  std::vector<double> all(resamples.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const std::span<const uint32_t> picks = resamples[i];
    std::transform(picks.begin(), picks.end(), drawn.begin(),
                   [&](uint32_t pick) { return values[pick]; });
    all[i] = value_of(statistic, drawn);
  }
  std::sort(all.begin(), all.end());
  out.low = quantile(all, kTail);
  out.high = quantile(all, 1 - kTail);
  return out;
}

double quantile(std::span<const double> sorted, double q) {
  CHECK(!sorted.empty() && q >= 0 && q <= 1);
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = at - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

}  // namespace tessera
