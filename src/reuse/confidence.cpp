#include "reuse/confidence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace tessera {
namespace {

std::vector<double> log_softmax(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(l - top);
  const double shift = top + std::log(sum);
  std::vector<double> out;
  out.reserve(logits.size());
  for (const float l : logits) out.push_back(l - shift);
  return out;
}

}  // namespace

Certainty certainty_of(std::span<const float> logits, int32_t n_vocab) {
  const auto width = static_cast<size_t>(n_vocab);
  CHECK(n_vocab > 0 && logits.size() % width == 0 && logits.size() >= width);
  const size_t n_before = logits.size() / width - 1;
  const std::vector<double> last = log_softmax(logits.subspan(n_before * width));
  Certainty out;
  for (const double log_p : last) {
    const double p = std::exp(log_p);
    if (p > 0) out.entropy -= p * log_p;
  }
  for (size_t layer = 0; layer < n_before; ++layer) {
    const std::vector<double> p = log_softmax(logits.subspan(layer * width, width));
    for (size_t token = 0; token < width; ++token) {
      const double share = std::exp(p[token]);
      if (share > 0) out.kl += share * (p[token] - last[token]);
    }
  }
  if (n_before > 0) out.kl /= static_cast<double>(n_before);
  return out;
}

double confidence_of(const Certainty& certainty, const ConfidenceOptions& options,
                     int32_t n_vocab) {
  const double agreement = std::exp(-certainty.kl / options.kl_scale);
  const double sharpness = n_vocab > 1 ? 1.0 - certainty.entropy / std::log(n_vocab) : 1.0;
  return options.lambda * agreement + (1.0 - options.lambda) * sharpness;
}

}  // namespace tessera
