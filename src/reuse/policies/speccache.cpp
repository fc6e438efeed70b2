// SpecCache (section 2; DESIGN.md section 6.1): the tokens whose hidden states in a small scorer
// model are longest, by runs of neighbours. The choice is made among the scorer's tokens and
// carried over to those of the target that share a byte with them.
#include <algorithm>

#include "base/check.h"
#include "reuse/policy.h"

namespace tessera {
namespace {

// Scorer's tokens that stand for approximate chunks, one range a chunk.
std::vector<TokenRange> runs_of(std::span<const Segment> segments, const Scores& scores) {
  std::vector<TokenRange> runs;
  size_t unit = 0;
  for (const Segment& s : segments) {
    if (!is_approximate(s)) continue;
    while (unit < scores.covers.size() && scores.covers[unit].begin < s.range.begin) ++unit;
    const auto begin = static_cast<int32_t>(unit);
    while (unit < scores.covers.size() && scores.covers[unit].begin < s.range.end) ++unit;
    runs.push_back({begin, static_cast<int32_t>(unit)});
  }
  return runs;
}

class SpecCache : public ReusePolicy {
 public:
  explicit SpecCache(const PolicyOptions& options) : options_(options) {}

  std::vector<Match> lookups() const override { return {Match::kExact, Match::kIndependent}; }
  Evidence evidence() const override {
    return options_.online_scores ? Evidence::kScorerNorms : Evidence::kStoredScorerNorms;
  }
  LayerPart layers() const override {
    return layer_part(options_.layers.empty() ? "third" : options_.layers);
  }

  std::vector<int32_t> select(std::span<const Segment> segments,
                              const Scores& scores) const override {
    const int32_t n_loaded = n_loaded_tokens(segments);
    if (n_loaded == 0) return {};
    CHECK(scores.covers.size() == scores.value.size());
    const std::vector<TokenRange> runs = runs_of(segments, scores);
    int32_t n_units = 0;
    for (const TokenRange& run : runs) n_units += run.size();
    Scores preferred = {
        span_preference(scores.value, runs, recompute_budget(options_.recompute_ratio, n_units),
                        options_.spans),
        scores.covers};
    const std::vector<float> of_positions = position_scores(segments, preferred);
    const int32_t budget = recompute_budget(options_.recompute_ratio, n_loaded);
    // Above the budget only what was completed.
    const auto n_preferred = static_cast<int32_t>(
        std::count_if(of_positions.begin(), of_positions.end(), [](float p) { return p > 0; }));
    const int32_t n = std::max(budget, std::min(span_limit(options_.spans, budget), n_preferred));
    return highest_positions(segments, of_positions, std::min(n, n_loaded));
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<ReusePolicy> make_speccache(const PolicyOptions& options) {
  return std::make_unique<SpecCache>(options);
}

}  // namespace tessera
