// What other engines do: KV is reused only behind the very tokens that it was computed behind, so
// nothing that was loaded is ever approximate and nothing is recomputed.
#include "reuse/policy.h"

namespace tessera {
namespace {

class Prefix : public ReusePolicy {
 public:
  std::vector<Match> lookups() const override { return {Match::kExact}; }
  std::vector<int32_t> select(std::span<const Segment>, const Scores&) const override { return {}; }
};

}  // namespace

std::unique_ptr<ReusePolicy> make_prefix(const PolicyOptions&) {
  return std::make_unique<Prefix>();
}

}  // namespace tessera
