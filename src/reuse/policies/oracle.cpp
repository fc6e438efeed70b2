// A control, not for use: what a selector by deviation would choose if it knew full prefill.
#include "reuse/top_score.h"

namespace tessera {

std::unique_ptr<ReusePolicy> make_oracle(const PolicyOptions& options) {
  return std::make_unique<TopScore>(options, Evidence::kKvDeviation);
}

}  // namespace tessera
