#include "eval/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
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

// Question 0 says that 0.1 is enough, question 1 that 0.3 is needed.
TEST(CrossFittedLoss, IsMeasuredWhereTheChoiceWasNotMade) {
  const std::vector<GridPoint> points = {
      {0.1, 0.0, 0.1, 0}, {0.3, 0.0, 0.3, 0}, {0.1, 0.8, 0.1, 1}, {0.3, 0.2, 0.3, 1}};

  EXPECT_DOUBLE_EQ(cross_fitted_loss(points, 0.2).value_or(-1), 0.4);  // 0.1 costs 0.8, 0.3 none
  EXPECT_DOUBLE_EQ(cross_fitted_loss(points, 0.1).value_or(-1), 0.4);  // 0.3 is the largest
  EXPECT_THAT(smallest_within(grid_lines(points), 0.1), Optional(Field(&GridLine::loss, 0.1)));
}

TEST(CrossFittedLoss, IsNoneOfOneQuestion) {
  const std::vector<GridPoint> points = {{0.1, 0.5, 0.1, 0}, {0.3, 0.2, 0.3, 0}};

  EXPECT_FALSE(cross_fitted_loss(points, 1));
  EXPECT_FALSE(cross_fitted_loss(std::vector<GridPoint>{}, 1));
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

// The first question teaches to stop early, the second to stop nowhere.
TEST(CrossFittedLoss, OfAdaptiveContextIsThatOfTheOtherHalf) {
  const std::vector<double> lambdas = {0};
  const AdaptiveChoice choice = {.lambdas = lambdas, .max_f1_loss = 0, .n_vocab = kVocab};
  std::vector<AdaptiveQuestion> questions = two_questions();
  questions[0].certainty = {sure(0.9), sure(0.5), sure(0.5)};

  EXPECT_EQ(cross_fitted_loss(questions, choice), 0);  // the second is not sure before the end
  questions[1].certainty = {sure(0.95), sure(0.95), sure(0.95)};  // and wrong at first
  EXPECT_EQ(cross_fitted_loss(questions, choice), 0.5);
  questions.pop_back();
  EXPECT_FALSE(cross_fitted_loss(questions, choice));
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
  for (const char* text : {"no JSON\n", "no JSON", "[1]\n", "{\"kind\":\"run\"}\n"}) {
    std::ofstream(folder.path() / "points.jsonl") << text;
    EXPECT_THROW(PointLog(folder.path() / "points.jsonl"), Error) << text;
    EXPECT_EQ(std::filesystem::file_size(folder.path() / "points.jsonl"), std::string(text).size());
  }
}

TEST(PointLog, AppendsALineForEachPoint) {
  const ScratchFolder folder(testing::TempDir());
  PointLog log(folder.path() / "points.jsonl");
  log.add({{"id", "b"}}, 1);
  log.add({{"id", "a"}}, 2);

  std::ifstream in(folder.path() / "points.jsonl");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(text, "{\"key\":{\"id\":\"b\"},\"value\":1}\n{\"key\":{\"id\":\"a\"},\"value\":2}\n");
}

// As a program leaves it that was killed, or whose disk was full.
TEST(PointLog, DropsALastLineThatWasCutOff) {
  const ScratchFolder folder(testing::TempDir());
  const std::filesystem::path file = folder.path() / "points.jsonl";
  for (const char* cut : {"{\"k", "{\"key\":{\"id\":\"b\"},\"val"}) {
    std::ofstream(file) << "{\"key\":{\"id\":\"a\"},\"value\":1}\n" << cut;
    {
      PointLog log(file);
      EXPECT_NE(log.find({{"id", "a"}}), nullptr);
      EXPECT_EQ(log.find({{"id", "b"}}), nullptr);
      log.add({{"id", "b"}}, 2);
    }
    EXPECT_EQ(*PointLog(file).find({{"id", "b"}}), 2);
    std::ofstream(file) << cut;
    EXPECT_EQ(PointLog(file).find({{"id", "b"}}), nullptr);
  }
}

TEST(PointLog, FolderThatIsNotThereIsSaid) {
  const ScratchFolder folder(testing::TempDir());

  EXPECT_THROW(PointLog(folder.path() / "missing" / "points.jsonl"), Error);
}

std::vector<std::string> texts_of(const std::vector<PassageText>& passages) {
  std::vector<std::string> out;
  for (const PassageText& passage : passages) out.push_back(passage.text);
  return out;
}

TEST(FamiliarCompany, KeepsPairsAndChangesWhatStandsBeforeThem) {
  const Sample own = {"q1", "?", {"a"}, {{"", "1"}, {"", "2"}, {"", "3"}, {"", "4"}, {"", "5"}}};
  const Sample next = {"q2", "?", {"a"}, {{"", "x"}, {"", "2"}, {"", "y"}}};
  const std::vector<EvalSet> sets = {{"one", {next}}, {"two", {own}}};

  // Behind the last question comes the first again; "2" is no stranger.
  EXPECT_THAT(texts_of(familiar_company(sets, {1, 0})),
              testing::ElementsAre("x", "1", "2", "y", "3", "4", "5"));
  EXPECT_THAT(texts_of(familiar_company({{"two", {own}}}, {0, 0})),
              testing::ElementsAre("1", "2", "3", "4", "5"));
}

}  // namespace
}  // namespace tessera
