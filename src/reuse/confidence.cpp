#include "reuse/confidence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tessera {
namespace {

// Of softmax(logits): ln of its denominator, and the means of the logits themselves and of those of
// another layer.
struct Moments {
  double log_sum = 0, mean = 0, mean_of_other = 0;
};

// One exponential a token: a vocabulary has 100,000 and more, and this is done for every round.
Moments moments_of(std::span<const float> logits, std::span<const float> other) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0, weighted = 0, weighted_other = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float weight = std::exp(logits[i] - top);
    if (weight == 0.0F) continue;  // also where the logit is minus infinity
    sum += weight;
    weighted += static_cast<double>(weight) * logits[i];
    weighted_other += static_cast<double>(weight) * other[i];
  }
  return {top + std::log(sum), weighted / sum, weighted_other / sum};
}

}  // namespace

Certainty certainty_of(std::span<const float> logits, int32_t n_vocab) {
  const auto width = static_cast<size_t>(n_vocab);
  CHECK(n_vocab > 0 && logits.size() % width == 0 && logits.size() >= width);
  const size_t n_before = logits.size() / width - 1;
  const std::span<const float> last = logits.subspan(n_before * width);
  const Moments of_last = moments_of(last, last);
  Certainty out;
  out.entropy = of_last.log_sum - of_last.mean;
  double kl = 0;
  for (size_t layer = 0; layer < n_before; ++layer) {
    const Moments m = moments_of(logits.subspan(layer * width, width), last);
    kl += (m.mean - m.log_sum) - (m.mean_of_other - of_last.log_sum);
  }
  if (n_before > 0) out.kl = kl / static_cast<double>(n_before);
  return out;
}

double confidence_of(const Certainty& certainty, const ConfidenceOptions& options,
                     int32_t n_vocab) {
  const double agreement = std::exp(-certainty.kl.value_or(0) / options.kl_scale);
  const double sharpness = n_vocab > 1 ? 1.0 - certainty.entropy / std::log(n_vocab) : 1.0;
  return options.lambda * agreement + (1.0 - options.lambda) * sharpness;
}

}  // namespace tessera
