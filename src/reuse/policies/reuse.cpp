// Every chunk as it was stored, as in PromptCache: the lower bound of work and of quality.
#include "reuse/policy.h"

namespace tessera {
namespace {

class Reuse : public ReusePolicy {
 public:
  std::vector<Match> lookups() const override { return {Match::kExact, Match::kIndependent}; }
  std::vector<int32_t> select(std::span<const Segment>, const Scores&) const override { return {}; }
};

}  // namespace

std::unique_ptr<ReusePolicy> make_reuse(const PolicyOptions&) { return std::make_unique<Reuse>(); }

}  // namespace tessera
