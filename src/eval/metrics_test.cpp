#include "eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera {
namespace {

TEST(Metrics, NormalisationDropsCasePunctuationAndArticles) {
  EXPECT_EQ(normalize_answer("  The  R.A.N.D. Corporation, a think-tank! "),
            "rand corporation thinktank");
}

TEST(Metrics, F1CountsSharedWordsOnce) {
  const std::vector<std::string> gold = {"the cat sat"};
  EXPECT_DOUBLE_EQ(token_f1("cat sat", gold), 1.0);
  EXPECT_DOUBLE_EQ(token_f1("cat cat cat cat", gold), 2.0 * 0.25 * 0.5 / 0.75);
  EXPECT_DOUBLE_EQ(token_f1("dog", gold), 0.0);
}

TEST(Metrics, BestOfSeveralGoldAnswersCounts) {
  const std::vector<std::string> gold = {"12 May 1999", "May 1999"};
  EXPECT_DOUBLE_EQ(token_f1("May 1999.", gold), 1.0);
}

TEST(Metrics, EmptyAnswers) {
  const std::vector<std::string> none = {}, empty = {"the"}, some = {"x"};
  EXPECT_DOUBLE_EQ(token_f1("", none), 0.0);
  EXPECT_DOUBLE_EQ(token_f1("", empty), 1.0);
  EXPECT_DOUBLE_EQ(token_f1("", some), 0.0);
}

TEST(Metrics, ExactMatchIsEqualityAfterNormalisation) {
  const std::vector<std::string> gold = {"The Hague", "Den Haag"};
  EXPECT_TRUE(is_exact_match("hague.", gold));
  EXPECT_TRUE(is_exact_match("Den  Haag", gold));
  EXPECT_FALSE(is_exact_match("The Hague, Netherlands", gold));
  EXPECT_FALSE(is_exact_match("", {}));
}

TEST(Metrics, NllIsTheMeanOverTokensInNats) {
  const std::vector<float> logits = {std::log(3.0F), 0.0F, 5.0F, 5.0F};  // 3/4 1/4, 1/2 1/2
  const std::vector<int32_t> tokens = {0, 1};

  EXPECT_NEAR(mean_nll(logits, tokens, 2), -(std::log(0.75) + std::log(0.5)) / 2, 1e-6);
}

TEST(Metrics, NllScoresNoMoreTokensThanThereAreRows) {
  const std::vector<float> row = {0.0F, 0.0F};
  EXPECT_NEAR(mean_nll(row, std::vector<int32_t>{1, 0, 1}, 2), std::log(2.0), 1e-6);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

}  // namespace
}  // namespace tessera
