// EPIC (LegoLink): the first k tokens of every reused chunk, where its private attention sink lies.
#include <algorithm>

#include "reuse/policy.h"

namespace tessera {
namespace {

class Epic : public ReusePolicy {
 public:
  explicit Epic(const PolicyOptions& options) : options_(options) {}

  // The exact match of the first chunk comes first: it lies outside the budget and needs no repair.
  std::vector<Match> lookups() const override { return {Match::kExact, Match::kIndependent}; }

  std::vector<int32_t> select(std::span<const Segment> segments, const Scores&) const override {
    if (options_.head_tokens == 0) {
      return chunk_heads(segments,
                         recompute_budget(options_.recompute_ratio, n_loaded_tokens(segments)));
    }
    std::vector<int32_t> positions;
    for (const Segment& s : segments) {
      if (!is_approximate(s)) continue;
      const int32_t end = s.range.begin + std::min(s.range.size(), options_.head_tokens);
      for (int32_t at = s.range.begin; at < end; ++at) positions.push_back(at);
    }
    return positions;
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<ReusePolicy> make_epic(const PolicyOptions& options) {
  return std::make_unique<Epic>(options);
}

}  // namespace tessera
