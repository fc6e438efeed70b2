// CacheBlend (Yao et al. 2024, section 4.2): the tokens whose V at layer 1 deviates most. Layer 0
// of all tokens has run by then, and the rest resumes from its hidden states (src/engine/probe.h).
#include "reuse/top_score.h"

namespace tessera {

std::unique_ptr<ReusePolicy> make_cacheblend(const PolicyOptions& options) {
  return std::make_unique<TopScore>(options, Evidence::kValueDeviation);
}

}  // namespace tessera
