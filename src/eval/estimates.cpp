#include "eval/estimates.h"

#include <optional>

#include "eval/registry.h"

namespace tessera {

std::vector<Estimate> Estimator::of(std::span<const Measurement* const> questions) {
  std::vector<Estimate> out;
  for (const Metric& metric : metrics()) {
    std::vector<double> values;
    for (const Measurement* measurement : questions) {
      if (const std::optional<double> value = metric.value(*measurement)) values.push_back(*value);
    }
    out.push_back(estimate_of(values, metric.statistic));
  }
  return out;
}

std::vector<Estimate> Estimator::of_differences(std::span<const MeasurementPair> pairs) {
  std::vector<Estimate> out;
  for (const Metric& metric : metrics()) {
    std::vector<double> values;
    for (const MeasurementPair& pair : pairs) {
      const std::optional<double> a = metric.value(*pair.ours), b = metric.value(*pair.theirs);
      if (a && b) values.push_back(*a - *b);
    }
    out.push_back(estimate_of(values, metric.statistic));
  }
  return out;
}

Estimate Estimator::estimate_of(const std::vector<double>& values, Statistic statistic) {
  if (values.empty()) return {};
  const size_t n = values.size();
  const auto drawn = drawn_.try_emplace(n, n, n_resamples_, seed_).first;
  return estimate(values, statistic, drawn->second);
}

}  // namespace tessera
