#include "bench/load_queue.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kNumQueueValues> kNames = {
    "throughput",      "prompt_tokens_per_second",
    "ttft_ms",         "ttft_p50_ms",
    "ttft_p90_ms",     "ttft_p99_ms",
    "wait_ms",         "wait_p90_ms",
    "queue",           "utilisation",
    "met_share",       "goodput",
    "quality_goodput", "span_s"};

bool is_per_time(size_t value) {
  switch (value) {
    case kThroughput:
    case kPromptRate:
    case kQueueLength:
    case kUtilisation:
    case kGoodput:
    case kQualityGoodput:
      return true;
    default:
      return false;
  }
}

double sum_of(std::span<const Service> services, double Service::*part) {
  return std::accumulate(services.begin(), services.end(), 0.0,
                         [part](double sum, const Service& s) { return sum + s.*part; });
}

// Share of the requests of all runs; the runs have the same number of them.
double met_share(std::span<const Gaps> runs, double rate, std::span<const Service> services,
                 double bound_ms) {
  size_t n_met = 0;
  for (const Gaps& gaps : runs) {
    const std::vector<Visit> visits = visits_at(gaps, rate, services);
    for (size_t i = 0; i < visits.size(); ++i)
      n_met += visits[i].wait_ms + services[i].first_token_ms <= bound_ms ? 1 : 0;
  }
  return static_cast<double>(n_met) / static_cast<double>(runs.size() * services.size());
}

}  // namespace

std::string_view queue_value_name(QueueValue value) { return kNames.at(value); }

std::vector<Gaps> poisson_gaps(size_t n_runs, size_t n_requests, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Gaps> runs(n_runs, Gaps(n_requests));
  for (Gaps& gaps : runs) {
    for (double& gap : gaps) {
      // 53 bits, so that 1 - u is never 0; std::exponential_distribution differs between libraries.
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      gap = -std::log1p(-u);
    }
  }
  return runs;
}

std::vector<Visit> visits_at(std::span<const double> gaps, double rate,
                             std::span<const Service> services) {
  CHECK(gaps.size() == services.size() && rate > 0);
  std::vector<Visit> out(gaps.size());
  double arrival_ms = 0, left_ms = 0;  // of the server's work when a request comes
  for (size_t i = 0; i < gaps.size(); ++i) {
    const double gap_ms = gaps[i] * 1000 / rate;
    arrival_ms += gap_ms;
    left_ms = std::max(0.0, left_ms - gap_ms);
    out[i] = {arrival_ms, left_ms};
    left_ms += services[i].total_ms;
  }
  return out;
}

QueueValues queue_values(std::span<const Visit> visits, std::span<const Service> services,
                         double bound_ms) {
  CHECK(!visits.empty() && visits.size() == services.size());
  std::vector<double> ttft, waits;
  double n_met = 0, n_good = 0;
  for (size_t i = 0; i < visits.size(); ++i) {
    waits.push_back(visits[i].wait_ms);
    ttft.push_back(visits[i].wait_ms + services[i].first_token_ms);
    const bool is_met = ttft.back() <= bound_ms;
    n_met += is_met ? 1 : 0;
    n_good += is_met && services[i].is_good ? 1 : 0;
  }
  const auto n = static_cast<double>(visits.size());
  const double waited_ms = std::accumulate(waits.begin(), waits.end(), 0.0);
  const double ttft_ms = std::accumulate(ttft.begin(), ttft.end(), 0.0);
  std::ranges::sort(ttft);
  std::ranges::sort(waits);
  const Service& last = services.back();
  const double end_ms = visits.back().arrival_ms + visits.back().wait_ms + last.answer_ms;
  const double busy_ms = sum_of(services, &Service::total_ms) - last.total_ms + last.answer_ms;
  double tokens = 0;
  for (const Service& s : services) tokens += s.prompt_tokens;
  QueueValues out = {};
  out[kThroughput] = 1000 * n / end_ms;
  out[kPromptRate] = 1000 * tokens / end_ms;
  out[kTtftMean] = ttft_ms / n;
  out[kTtftP50] = quantile(ttft, 0.5);
  out[kTtftP90] = quantile(ttft, 0.9);
  out[kTtftP99] = quantile(ttft, 0.99);
  out[kWaitMean] = waited_ms / n;
  out[kWaitP90] = quantile(waits, 0.9);
  out[kQueueLength] = waited_ms / end_ms;
  out[kUtilisation] = busy_ms / end_ms;
  out[kMetShare] = n_met / n;
  out[kGoodput] = 1000 * n_met / end_ms;
  out[kQualityGoodput] = 1000 * n_good / end_ms;
  out[kSpan] = end_ms / 1000;
  return out;
}

QueueFigures queue_figures(std::span<const Gaps> runs, double rate,
                           std::span<const Service> services, double bound_ms) {
  CHECK(!runs.empty());
  std::array<std::vector<double>, kNumQueueValues> values;
  QueueValues sums = {}, weights = {};
  for (const Gaps& gaps : runs) {
    const QueueValues of_run = queue_values(visits_at(gaps, rate, services), services, bound_ms);
    for (size_t v = 0; v < kNumQueueValues; ++v) {
      const double weight = is_per_time(v) ? of_run[kSpan] : 1;
      values[v].push_back(of_run[v]);
      sums[v] += weight * of_run[v];
      weights[v] += weight;
    }
  }
  QueueFigures out;
  for (size_t v = 0; v < kNumQueueValues; ++v) {
    std::ranges::sort(values[v]);
    out[v] = {sums[v] / weights[v], quantile(values[v], 0.025), quantile(values[v], 0.975),
              runs.size()};
  }
  return out;
}

double capacity_of(std::span<const Service> services) {
  return 1000 * static_cast<double>(services.size()) / sum_of(services, &Service::total_ms);
}

double highest_rate(std::span<const Gaps> runs, std::span<const Service> services, double bound_ms,
                    double share) {
  CHECK(!runs.empty() && !services.empty());
  constexpr double kFar = 1e6;  // times the capacity: nobody waits, all come at once
  constexpr double kPrecision = 1.001;
  const double capacity = capacity_of(services);
  double low = capacity / kFar, high = capacity * kFar;
  if (met_share(runs, low, services, bound_ms) < share) return 0;
  if (met_share(runs, high, services, bound_ms) >= share)
    return std::numeric_limits<double>::infinity();
  while (high / low > kPrecision) {
    const double middle = std::sqrt(low * high);
    (met_share(runs, middle, services, bound_ms) >= share ? low : high) = middle;
  }
  return low;
}

}  // namespace tessera
