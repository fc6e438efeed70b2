#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "reuse/policy.h"

namespace tessera {

int32_t n_loaded_tokens(std::span<const Segment> segments) {
  int32_t n = 0;
  for (const Segment& s : segments) {
    if (is_approximate(s)) n += s.range.size();
  }
  return n;
}

int32_t recompute_budget(double ratio, int32_t n_loaded) {
  CHECK(ratio >= 0 && ratio <= 1 && n_loaded >= 0);
  if (ratio == 0 || n_loaded == 0) return 0;
  // A ratio is a decimal that binary cannot hold: 0.07 * 100 is a little more than 7, and its
  // ceiling would be 8. A ratio is therefore meant to seven digits, which also takes one that came
  // by way of a float.
  const double noise = std::min(1e-7 * n_loaded, 0.01);
  const auto budget = static_cast<int32_t>(std::ceil(ratio * n_loaded - noise));
  return std::clamp(budget, 1, n_loaded);
}

}  // namespace tessera
