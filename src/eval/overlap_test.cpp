#include "eval/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

using testing::ElementsAre;

using Positions = std::vector<int32_t>;

TEST(ChosenPositions, AreThoseThatWereLoadedAndComputedAllTheSame) {
  const ReusePlan plan = {{{SegmentKind::kPreamble, {0, 2}, Match::kExact},
                           {SegmentKind::kChunk, {2, 6}, Match::kIndependent},
                           {SegmentKind::kChunk, {6, 8}, Match::kMiss},
                           {SegmentKind::kChunk, {8, 12}, Match::kSoft},
                           {SegmentKind::kQuery, {12, 14}, Match::kMiss}},
                          {3, 5, 6, 7, 8, 12, 13}};

  EXPECT_THAT(chosen_positions(plan), ElementsAre(3, 5, 8));
}

TEST(Jaccard, IsTheShareOfBothInEither) {
  EXPECT_DOUBLE_EQ(jaccard(Positions{1, 2, 3}, Positions{2, 3, 4}), 0.5);
  EXPECT_DOUBLE_EQ(jaccard(Positions{1, 5}, Positions{1, 5}), 1);
  EXPECT_DOUBLE_EQ(jaccard(Positions{1}, Positions{2, 3}), 0);
  EXPECT_DOUBLE_EQ(jaccard(Positions{}, Positions{2}), 0);
  EXPECT_DOUBLE_EQ(jaccard(Positions{}, Positions{}), 1);
}

// Two of four and two of four: none in common with 1/6, one with 4/6, both with 1/6.
TEST(RandomJaccard, IsTheMeanOverAllDraws) {
  EXPECT_NEAR(random_jaccard(4, 2, 2), (4.0 / 3 + 1) / 6, 1e-12);
  EXPECT_NEAR(random_jaccard(10, 1, 1), 0.1, 1e-12);
  EXPECT_NEAR(random_jaccard(5, 5, 5), 1, 1e-12);
  EXPECT_NEAR(random_jaccard(5, 5, 2), 0.4, 1e-12);  // the smaller lies in the other
  EXPECT_NEAR(random_jaccard(3, 2, 2), 2.0 / 3 / 3 + 1.0 / 3, 1e-12);  // one has to be in both
  EXPECT_EQ(random_jaccard(5, 0, 2), 0);
  EXPECT_EQ(random_jaccard(5, 0, 0), 1);
}

TEST(RandomJaccard, OfManyTokensIsNearTheSharesOwn) {
  // Of 15% each 2.25% are in both: 0.0225 / 0.2775.
  EXPECT_NEAR(random_jaccard(10'000, 1500, 1500), 0.0225 / 0.2775, 1e-4);
}

TEST(OverlapReport, MeansAreOverQuestions) {
  const std::vector<Choices> questions = {{4, {{0, 1}, {0, 1}, {2, 3}}},
                                          {8, {{0, 1, 2, 3}, {2, 3, 4, 5}, {0, 1, 2, 3}}}};

  const OverlapReport out = overlap_report(questions, Resamples(2, 100, 0));

  ASSERT_EQ(out.n_variants, 3U);
  EXPECT_DOUBLE_EQ(out.at(0, 0).value, 1);
  EXPECT_DOUBLE_EQ(out.at(0, 1).value, (1 + 1.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(out.at(1, 0).value, out.at(0, 1).value);
  EXPECT_DOUBLE_EQ(out.at(0, 2).value, 0.5);  // 0 and 1
  EXPECT_EQ(out.at(0, 2).n, 2U);
  EXPECT_LE(out.at(0, 2).low, 0.5);
  EXPECT_GE(out.at(0, 2).high, 0.5);
  EXPECT_NEAR(out.chance_at(0, 1), (random_jaccard(4, 2, 2) + random_jaccard(8, 4, 4)) / 2, 1e-12);
  EXPECT_THAT(out.chosen_share, ElementsAre(0.5, 0.5, 0.5));
}

}  // namespace
}  // namespace tessera
