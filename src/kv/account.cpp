#include "kv/account.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {

ReusePlan make_plan(std::vector<Segment> segments, std::span<const int32_t> recompute) {
  ReusePlan plan;
  size_t next = 0;
  for (const Segment& s : segments) {
    if (s.match == Match::kMiss) {
      for (int32_t p = s.range.begin; p < s.range.end; ++p) plan.rows.push_back(p);
      continue;
    }
    for (; next < recompute.size() && recompute[next] < s.range.end; ++next) {
      CHECK(recompute[next] >= s.range.begin && is_approximate(s));
      plan.rows.push_back(recompute[next]);
    }
  }
  CHECK(next == recompute.size());
  plan.segments = std::move(segments);
  return plan;
}

Account account_of(const ReusePlan& plan) {
  Account a;
  for (const Segment& s : plan.segments) {
    const auto begin = std::lower_bound(plan.rows.begin(), plan.rows.end(), s.range.begin);
    const auto end = std::lower_bound(begin, plan.rows.end(), s.range.end);
    const auto computed = static_cast<int32_t>(end - begin);
    const int32_t kept = s.range.size() - computed;
    switch (s.match) {
      case Match::kMiss:
        a.fresh += computed;
        break;
      case Match::kExact:
        a.exact += kept;
        break;
      case Match::kSoft:
        a.soft += kept;
        break;
      case Match::kIndependent:
        a.independent += kept;
        break;
    }
    if (s.match != Match::kMiss) a.recomputed += computed;
  }
  return a;
}

}  // namespace tessera
