// CacheBlend (Yao et al. 2024, section 4.2): the tokens whose V at layer 1 deviates most. Layer 0
// of all tokens has run by then, and the rest resumes from its hidden states (src/engine/probe.h).
#include "reuse/top_score.h"

namespace tessera {
namespace {

class CacheBlend : public TopScore {
 public:
  explicit CacheBlend(const PolicyOptions& options)
      : TopScore(options, Evidence::kValueDeviation), bottom_right_(options.bottom_right_mask) {}

  AttentionMask mask() const override {
    return bottom_right_ ? AttentionMask::kBottomRight : AttentionMask::kByPosition;
  }

 private:
  bool bottom_right_;
};

}  // namespace

std::unique_ptr<ReusePolicy> make_cacheblend(const PolicyOptions& options) {
  return std::make_unique<CacheBlend>(options);
}

}  // namespace tessera
