#pragma once
// Means and medians with bootstrap intervals. Pure: the same seed gives the same interval with
// every compiler and library. Thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// A value with its 95% interval.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
  size_t n = 0;  // questions that it is over; 0: there are none, and so no value
};

enum class Statistic { kMean, kMedian };

// Which questions each resample takes, with replacement. One object serves every metric and every
// policy over the same questions, so that what is compared saw the same draws.
class Resamples {
 public:
  // Both numbers must be positive.
  Resamples(size_t n_questions, size_t n_resamples, uint64_t seed);

  size_t n_questions() const { return n_questions_; }
  size_t size() const { return drawn_.size() / n_questions_; }
  // [n_questions] indices below n_questions.
  std::span<const uint32_t> operator[](size_t i) const {
    return std::span(drawn_).subspan(i * n_questions_, n_questions_);
  }

 private:
  size_t n_questions_;
  std::vector<uint32_t> drawn_;  // [n_resamples, n_questions]
};

// The statistic of `values`, one per question, and its percentile interval (Efron 1979): the 2.5%
// and 97.5% quantiles over the resamples.
Estimate estimate(std::span<const double> values, Statistic statistic, const Resamples& resamples);

// The value below which the share `q` of `sorted` lies, between two of them in proportion. Must not
// be empty.
double quantile(std::span<const double> sorted, double q);

}  // namespace tessera
