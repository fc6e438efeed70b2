#include "engine/front_kv.h"

#include <algorithm>
#include <numeric>

namespace tessera {

int64_t FrontKv::put(std::span<const int32_t> before, const std::stop_token& stop) {
  int64_t n_computed = 0;
  const bool is_resident = epoch_ == kv_.epoch() && std::equal(before.begin(), before.end(),
                                                               resident_.begin(), resident_.end());
  if (!is_resident) {
    kv_.clear();
    if (!before.empty()) {
      std::vector<int32_t> positions(before.size());
      std::iota(positions.begin(), positions.end(), 0);
      decoder_.prefill({&kv_, before, positions}, {}, stop);
      n_computed = static_cast<int64_t>(before.size());
    }
    resident_.assign(before.begin(), before.end());
    epoch_ = kv_.epoch();
  }
  kv_.truncate(static_cast<int32_t>(before.size()));
  return n_computed;
}

}  // namespace tessera
