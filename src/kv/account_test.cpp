#include "kv/account.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::vector<Segment> prompt() {
  return {{SegmentKind::kPreamble, {0, 4}, Match::kExact},
          {SegmentKind::kChunk, {4, 10}, Match::kIndependent},
          {SegmentKind::kChunk, {10, 12}, Match::kMiss},
          {SegmentKind::kChunk, {12, 20}, Match::kSoft},
          {SegmentKind::kQuery, {20, 23}, Match::kMiss}};
}

TEST(Account, EveryTokenIsCountedOnce) {
  const std::vector<int32_t> recompute = {4, 5, 13};

  const ReusePlan plan = make_plan(prompt(), recompute);
  const Account a = account_of(plan);

  EXPECT_EQ(plan.rows, (std::vector<int32_t>{4, 5, 10, 11, 13, 20, 21, 22}));
  EXPECT_EQ(a, (Account{.exact = 4, .soft = 7, .independent = 4, .recomputed = 3, .fresh = 5}));
  EXPECT_EQ(a.total(), 23);
  EXPECT_EQ(a.rows(), static_cast<int32_t>(plan.rows.size()));
}

TEST(Account, NothingLoadedIsAllFresh) {
  std::vector<Segment> segments = prompt();
  for (Segment& s : segments) s.match = Match::kMiss;

  EXPECT_EQ(account_of(make_plan(segments, {})), (Account{.fresh = 23}));
}

TEST(AccountDeath, RecomputingExactKvIsABug) {
  const std::vector<int32_t> recompute = {2};

  EXPECT_DEATH(make_plan(prompt(), recompute), "check failed");
}

}  // namespace
}  // namespace tessera
