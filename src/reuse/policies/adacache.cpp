// AdaCache: tokens whose attention in the first layer leaves their own chunk, as many as the match
// of their chunk calls for (its sections on the cache hierarchy and on adaptive recomputation;
// DESIGN.md section 6.2).
#include <algorithm>
#include <iterator>

#include "reuse/policy.h"

namespace tessera {
namespace {

class AdaCache : public ReusePolicy {
 public:
  explicit AdaCache(const PolicyOptions& options) : options_(options) {}

  std::vector<Match> lookups() const override {
    return {Match::kExact, Match::kSoft, Match::kIndependent};
  }
  Evidence evidence() const override { return Evidence::kOutwardAttention; }
  bool trusts_approximate() const override { return options_.hard_as_paper; }

  std::vector<int32_t> select(std::span<const Segment> segments,
                              const Scores& scores) const override {
    const double beta = options_.recompute_ratio, alpha = options_.alpha();
    const std::vector<Segment> soft = only(Match::kSoft, segments);
    const std::vector<Segment> others = only(Match::kIndependent, segments);
    const int32_t of_others = recompute_budget(beta, n_loaded_tokens(others));
    const int32_t of_all = recompute_budget(beta, n_loaded_tokens(segments));
    const int32_t of_soft =
        std::min(recompute_budget(alpha, n_loaded_tokens(soft)), of_all - of_others);
    const std::vector<float> score = position_scores(segments, scores);
    const std::vector<int32_t> in_soft = highest_positions(soft, score, of_soft);
    const std::vector<int32_t> in_others = highest_positions(others, score, of_others);
    std::vector<int32_t> chosen;
    std::merge(in_soft.begin(), in_soft.end(), in_others.begin(), in_others.end(),
               std::back_inserter(chosen));
    return chosen;
  }

 private:
  // The chunks that matched in one way; they share what may be recomputed of them.
  static std::vector<Segment> only(Match match, std::span<const Segment> segments) {
    std::vector<Segment> out;
    for (const Segment& s : segments) {
      if (s.match == match) out.push_back(s);
    }
    return out;
  }

  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<ReusePolicy> make_adacache(const PolicyOptions& options) {
  return std::make_unique<AdaCache>(options);
}

}  // namespace tessera
