#pragma once
// Policies that recompute the tokens with the highest score differ only in what the score is.
#include "reuse/policy.h"

namespace tessera {

class TopScore : public ReusePolicy {
 public:
  TopScore(const PolicyOptions& options, Evidence evidence)
      : options_(options), evidence_(evidence) {}

  std::vector<Match> lookups() const override { return {Match::kExact, Match::kIndependent}; }
  Evidence evidence() const override { return evidence_; }

  std::vector<int32_t> select(std::span<const Segment> segments,
                              const Scores& scores) const override {
    return highest_positions(segments, position_scores(segments, scores),
                             recompute_budget(options_.recompute_ratio, n_loaded_tokens(segments)));
  }

 private:
  PolicyOptions options_;
  Evidence evidence_;
};

}  // namespace tessera
