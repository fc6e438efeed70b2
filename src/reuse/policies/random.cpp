// A control: a selector that is worth its cost must beat it.
#include <algorithm>
#include <random>
#include <utility>

#include "base/random.h"
#include "reuse/policy.h"

namespace tessera {
namespace {

class Random : public ReusePolicy {
 public:
  explicit Random(const PolicyOptions& options) : options_(options) {}

  std::vector<Match> lookups() const override { return {Match::kExact, Match::kIndependent}; }

  std::vector<int32_t> select(std::span<const Segment> segments, const Scores&) const override {
    std::vector<int32_t> positions;
    for (const Segment& s : segments) {
      if (!is_approximate(s)) continue;
      for (int32_t at = s.range.begin; at < s.range.end; ++at) positions.push_back(at);
    }
    const auto n = static_cast<size_t>(
        recompute_budget(options_.recompute_ratio, static_cast<int32_t>(positions.size())));
    std::mt19937_64 random(options_.seed);
    for (size_t i = 0; i < n; ++i)
      std::swap(positions[i], positions[i + draw_below(random, positions.size() - i)]);
    positions.resize(n);
    std::sort(positions.begin(), positions.end());
    return positions;
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<ReusePolicy> make_random(const PolicyOptions& options) {
  return std::make_unique<Random>(options);
}

}  // namespace tessera
