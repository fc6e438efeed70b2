#include "kv/account.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {

TokenRange rows_within(std::span<const int32_t> rows, TokenRange range) {
  const auto at = [&](int32_t position) {
    return static_cast<int32_t>(std::lower_bound(rows.begin(), rows.end(), position) -
                                rows.begin());
  };
  return {at(range.begin), at(range.end)};
}

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
    const int32_t computed = rows_within(plan.rows, s.range).size();
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
