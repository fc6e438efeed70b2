#include "eval/overlap.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace tessera {
namespace {

double log_choose(int32_t n, int32_t k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
}

double share(size_t part, size_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::vector<int32_t> chosen_positions(const ReusePlan& plan) {
  std::vector<int32_t> out;
  for (const Segment& s : plan.segments) {
    if (s.match == Match::kMiss) continue;
    const TokenRange rows = rows_within(plan.rows, s.range);
    out.insert(out.end(), plan.rows.begin() + rows.begin, plan.rows.begin() + rows.end);
  }
  return out;
}

double jaccard(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  const size_t n_either = a.size() + b.size() - both.size();
  return n_either == 0 ? 1 : share(both.size(), n_either);
}

double random_jaccard(int32_t n, int32_t n_a, int32_t n_b) {
  CHECK(n_a >= 0 && n_b >= 0 && n_a <= n && n_b <= n);
  if (n_a + n_b == 0) return 1;
  double mean = 0;
  for (int32_t both = std::max(0, n_a + n_b - n); both <= std::min(n_a, n_b); ++both) {
    const double log_probability =
        log_choose(n_a, both) + log_choose(n - n_a, n_b - both) - log_choose(n, n_b);
    mean += std::exp(log_probability) * both / (n_a + n_b - both);
  }
  return mean;
}

OverlapReport overlap_report(std::span<const Choices> questions, const Resamples& resamples) {
  CHECK(!questions.empty());
  OverlapReport out;
  const size_t n = out.n_variants = questions.front().chosen.size();
  const auto n_questions = static_cast<double>(questions.size());
  out.chosen_share.resize(n);
  for (const Choices& q : questions) {
    CHECK(q.n_tokens > 0 && q.chosen.size() == n);
    for (size_t a = 0; a < n; ++a)
      out.chosen_share[a] += static_cast<double>(q.chosen[a].size()) / q.n_tokens / n_questions;
  }
  out.overlap.resize(n * n);
  out.by_chance.resize(n * n);
  const auto add_pair = [&](size_t a, size_t b) {
    std::vector<double> values;
    double by_chance = 0;
    for (const Choices& q : questions) {
      values.push_back(jaccard(q.chosen[a], q.chosen[b]));
      by_chance += random_jaccard(q.n_tokens, static_cast<int32_t>(q.chosen[a].size()),
                                  static_cast<int32_t>(q.chosen[b].size()));
    }
    out.overlap[a * n + b] = out.overlap[b * n + a] = estimate(values, Statistic::kMean, resamples);
    out.by_chance[a * n + b] = out.by_chance[b * n + a] = by_chance / n_questions;
  };
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a; b < n; ++b) add_pair(a, b);
  }
  return out;
}

}  // namespace tessera
