#include "eval/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<bool> frontier(const std::vector<CostPair>& points) { return on_frontier(points); }

TEST(Frontier, LeavesOutWhatAnotherIsBetterThanInBothCosts) {
  EXPECT_THAT(frontier({{1, 3}, {2, 2}, {3, 1}, {3, 3}}), ElementsAre(true, true, true, false));
}

TEST(Frontier, OneCostThatIsEqualDoesNotSaveTheOther) {
  EXPECT_THAT(frontier({{1, 2}, {1, 3}}), ElementsAre(true, false));
  EXPECT_THAT(frontier({{2, 1}, {1, 1}}), ElementsAre(false, true));
}

TEST(Frontier, EqualPointsStandTogether) {
  EXPECT_THAT(frontier({{1, 1}, {1, 1}}), ElementsAre(true, true));
  EXPECT_THAT(frontier({{2, 2}, {2, 2}, {1, 2}}), ElementsAre(false, false, true));
}

TEST(Frontier, OneOrNoPoint) {
  EXPECT_THAT(frontier({{5, 5}}), ElementsAre(true));
  EXPECT_THAT(frontier({}), IsEmpty());
}

}  // namespace
}  // namespace tessera
