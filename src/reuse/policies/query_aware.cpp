// Windows of the tokens that the query attends to most (DESIGN.md section 6.3): neighbours of a
// token that matters are repaired with it, since a token recomputed alone among stale ones gains
// little.
#include "reuse/policy.h"

#include <algorithm>

namespace tessera {
namespace {

class QueryAware : public ReusePolicy {
 public:
  explicit QueryAware(const PolicyOptions& options) : options_(options) {}

  std::vector<Match> lookups() const override { return {Match::kExact, Match::kIndependent}; }
  Evidence evidence() const override {
    return options_.scorer_attention ? Evidence::kScorerAttention : Evidence::kQueryAttention;
  }
  LayerPart layers() const override {
    return layer_part(options_.layers.empty() ? "half" : options_.layers);
  }

  std::vector<int32_t> select(std::span<const Segment> segments,
                              const Scores& scores) const override {
    const int32_t budget = recompute_budget(options_.recompute_ratio, n_loaded_tokens(segments));
    const auto n_heads = static_cast<int32_t>(options_.head_share * budget);
    return highest_positions(segments, smoothed(segments, position_scores(segments, scores)),
                             budget, chunk_heads(segments, n_heads));
  }

 private:
  // Running mean over the window, in which all that cannot be chosen counts 0: the preamble draws
  // most of the attention and would otherwise lend it to the tokens beside it.
  std::vector<float> smoothed(std::span<const Segment> segments,
                              std::span<const float> score) const {
    std::vector<double> sum(score.size() + 1, 0.0);  // of what lies before
    for (const Segment& s : segments) {
      for (int32_t at = s.range.begin; at < s.range.end; ++at) {
        const auto i = static_cast<size_t>(at);
        sum[i + 1] = sum[i] + (is_approximate(s) ? score[i] : 0.0F);
      }
    }
    const auto half = static_cast<size_t>(options_.window / 2);
    std::vector<float> mean(score.size());
    for (size_t i = 0; i < mean.size(); ++i) {
      const size_t begin = i > half ? i - half : 0;
      const size_t end = std::min(mean.size(), i + half + 1);
      mean[i] = static_cast<float>((sum[end] - sum[begin]) / options_.window);
    }
    return mean;
  }

  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<ReusePolicy> make_query_aware(const PolicyOptions& options) {
  return std::make_unique<QueryAware>(options);
}

}  // namespace tessera
