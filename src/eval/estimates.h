#pragma once
// Every metric over some questions, with its bootstrap interval. Pure; not thread-safe.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "eval/measurement.h"
#include "eval/statistics.h"

namespace tessera {

// The same question measured twice, of which `ours` less `theirs` counts.
struct MeasurementPair {
  const Measurement* ours = nullptr;
  const Measurement* theirs = nullptr;
};

// One object for all that is to be compared: the same number of questions is resampled by the same
// draws.
class Estimator {
 public:
  // `n_resamples` must be positive.
  Estimator(size_t n_resamples, uint64_t seed) : n_resamples_(n_resamples), seed_(seed) {}

  // In the order of metrics(), each over those that have a value; of none with n 0.
  std::vector<Estimate> of(std::span<const Measurement* const> questions);
  // The same of the differences, over those pairs of which both have a value.
  std::vector<Estimate> of_differences(std::span<const MeasurementPair> pairs);

 private:
  Estimate estimate_of(const std::vector<double>& values, Statistic statistic);

  size_t n_resamples_;
  uint64_t seed_;
  std::map<size_t, Resamples> drawn_;  // by number of questions
};

}  // namespace tessera
