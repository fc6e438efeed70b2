#include "eval/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "eval/tuning_run.h"

namespace tessera {
namespace {

using testing::Field;
using testing::Optional;

// ln of it is the entropy of a model that knows nothing.
constexpr int32_t kVocab = 100;

// Confidence under lambda 0 is what is given: 1 - entropy / ln n_vocab.
Certainty sure(double confidence, double kl = 1.0) {
  return {.kl = kl, .entropy = (1.0 - confidence) * std::log(kVocab)};
}

// One is sure at its first passage and right; the other only at its third.
std::vector<AdaptiveQuestion> two_questions() {
  return {{.certainty = {sure(0.9), sure(0.9), sure(0.9)},
           .rows = {30, 30, 30},
           .f1 = {1, 1, 1},
           .rows_at_once = 60},
          {.certainty = {sure(0.2), sure(0.4), sure(0.8)},
           .rows = {30, 30, 30},
           .f1 = {0, 0.5, 1},
           .rows_at_once = 60}};
}

TEST(GridLines, AreMeansPerSettingInOrder) {
  const std::vector<GridPoint> points = {
      {0.3, 0.1, 0.4}, {0.1, 0.5, 0.2}, {0.1, 0.7, 0.3}, {0.3, 0.3, 0.4}};

  const std::vector<GridLine> lines = grid_lines(points);

  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].setting, 0.1);
  EXPECT_DOUBLE_EQ(lines[0].loss, 0.6);
  EXPECT_DOUBLE_EQ(lines[0].rows_share, 0.25);
  EXPECT_EQ(lines[0].n, 2U);
  EXPECT_EQ(lines[1].setting, 0.3);
  EXPECT_DOUBLE_EQ(lines[1].loss, 0.2);
}

TEST(SmallestWithin, TakesTheSmallestSettingOfThoseInTheBound) {
  const std::vector<GridLine> lines = {
      {0.02, 0.30, 0.1, 4}, {0.05, 0.08, 0.1, 4}, {0.12, 0.09, 0.2, 4}, {0.3, 0.01, 0.4, 4}};

  EXPECT_THAT(smallest_within(lines, 0.1), Optional(Field(&GridLine::setting, 0.05)));
  EXPECT_THAT(smallest_within(lines, 0.01), Optional(Field(&GridLine::setting, 0.3)));
  EXPECT_THAT(smallest_within(lines, 1), Optional(Field(&GridLine::setting, 0.02)));
}

TEST(SmallestWithin, IsNoneWhereEverySettingLosesMore) {
  const std::vector<GridLine> lines = {{0.02, 0.3, 0.1, 4}, {0.3, 0.2, 0.4, 4}};

  EXPECT_FALSE(smallest_within(lines, 0.1));
  EXPECT_FALSE(smallest_within({}, 0.1));
}

TEST(KlScale, IsTheMedianOverAllRounds) {
  const std::vector<AdaptiveQuestion> questions = {{.certainty = {{.kl = 5}, {.kl = 1}}},
                                                   {.certainty = {{.kl = 2}}}};

  EXPECT_EQ(kl_scale_of(questions), 2);
}

TEST(KlScale, StaysPositiveWhereLayersAgree) {
  const std::vector<AdaptiveQuestion> questions = {{.certainty = {{.kl = 0}}}};

  EXPECT_GT(kl_scale_of(questions), 0);
}

TEST(AdaptiveLine, StopsAtTheFirstRoundPastTheThreshold) {
  const AdaptiveLine line = adaptive_line(two_questions(), {.lambda = 0}, 0.3, kVocab);

  EXPECT_EQ(line.passages, 1.5);            // 1 and 2
  EXPECT_DOUBLE_EQ(line.f1, 0.75);          // 1 and 0.5
  EXPECT_DOUBLE_EQ(line.f1_loss, 0.25);     // all passages: 1 and 1
  EXPECT_DOUBLE_EQ(line.rows_share, 0.75);  // 30 + 60 of 120
}

TEST(AdaptiveLine, CountsTheRepeatedRowsOfRoundsThatNeverStop) {
  const AdaptiveLine line = adaptive_line(two_questions(), {.lambda = 0}, 2.0, kVocab);

  EXPECT_EQ(line.passages, 3);
  EXPECT_EQ(line.f1_loss, 0);
  EXPECT_DOUBLE_EQ(line.rows_share, 1.5);  // 180 of 120
}

TEST(AdaptiveLine, LambdaOneReadsTheLayersAlone) {
  std::vector<AdaptiveQuestion> questions = two_questions();
  questions[0].certainty[0].kl = 100;

  const AdaptiveLine line =
      adaptive_line(questions, {.lambda = 1, .kl_scale = 1}, std::exp(-2.0), kVocab);

  EXPECT_EQ(line.passages, 1.5);  // 2, past the round of doubt, and 1
}

TEST(AdaptiveGrid, HoldsEveryLambdaAndAThresholdThatNeverStops) {
  const std::vector<double> lambdas = {0, 1};

  const std::vector<AdaptiveLine> grid = adaptive_grid(two_questions(), lambdas, 1, kVocab);

  EXPECT_EQ(grid.size() % 2, 0U);
  EXPECT_EQ(grid.front().lambda, 0);
  EXPECT_EQ(grid.back().lambda, 1);
  EXPECT_EQ(grid.back().passages, 3);
}

TEST(ChooseAdaptive, TakesTheFewestRowsWithinTheLoss) {
  const std::vector<AdaptiveLine> lines = {{.threshold = 1, .rows_share = 0.9, .f1_loss = 0.00},
                                           {.threshold = 2, .rows_share = 0.6, .f1_loss = 0.02},
                                           {.threshold = 3, .rows_share = 0.6, .f1_loss = 0.01},
                                           {.threshold = 4, .rows_share = 0.3, .f1_loss = 0.20}};

  EXPECT_THAT(choose_adaptive(lines, 0.05), Optional(Field(&AdaptiveLine::threshold, 3)));
  EXPECT_THAT(choose_adaptive(lines, 0), Optional(Field(&AdaptiveLine::threshold, 1)));
}

TEST(ChooseAdaptive, IsNoneWhereItSavesNothing) {
  const std::vector<AdaptiveLine> lines = {{.rows_share = 1.2, .f1_loss = 0},
                                           {.rows_share = 0.5, .f1_loss = 0.3}};

  EXPECT_FALSE(choose_adaptive(lines, 0.1));
}

TEST(ParetoFront, LeavesOutWhatAnotherLineBeats) {
  const std::vector<AdaptiveLine> lines = {{.threshold = 1, .rows_share = 0.9, .f1_loss = 0.00},
                                           {.threshold = 2, .rows_share = 0.5, .f1_loss = 0.10},
                                           {.threshold = 3, .rows_share = 0.7, .f1_loss = 0.10},
                                           {.threshold = 4, .rows_share = 1.4, .f1_loss = 0.00},
                                           {.threshold = 5, .rows_share = 0.3, .f1_loss = 0.40},
                                           {.threshold = 6, .rows_share = 0.3, .f1_loss = 0.40}};

  std::vector<double> kept;
  for (const AdaptiveLine& line : pareto_front(lines)) kept.push_back(line.threshold);

  EXPECT_THAT(kept, testing::ElementsAre(5, 2, 1));
}

TEST(PointLog, KeepsPointsForTheNextStart) {
  const ScratchFolder folder(testing::TempDir());
  const nlohmann::json key = {{"id", "q1"}, {"alpha", 0.02}}, other = {{"id", "q1"}, {"alpha", 0}};
  {
    PointLog log(folder.path() / "points.jsonl");
    EXPECT_EQ(log.find(key), nullptr);
    log.add(key, {{"kl", 0.5}});
  }

  PointLog log(folder.path() / "points.jsonl");
  ASSERT_NE(log.find(key), nullptr);
  EXPECT_EQ((*log.find(key))["kl"], 0.5);
  EXPECT_EQ(log.find(other), nullptr);
  log.add(key, {{"kl", 0.25}});
  EXPECT_EQ((*log.find(key))["kl"], 0.25);
}

TEST(PointLog, RefusesAnotherKindOfFile) {
  const ScratchFolder folder(testing::TempDir());
  for (const char* text : {"no JSON\n", "[1]\n", "{\"kind\":\"run\"}\n"}) {
    std::ofstream(folder.path() / "points.jsonl") << text;
    EXPECT_THROW(PointLog(folder.path() / "points.jsonl"), Error) << text;
  }
}

TEST(PointLog, FolderThatIsNotThereIsSaid) {
  const ScratchFolder folder(testing::TempDir());
  PointLog log(folder.path() / "missing" / "points.jsonl");

  EXPECT_THROW(log.add({{"id", 1}}, 2), Error);
}

}  // namespace
}  // namespace tessera
