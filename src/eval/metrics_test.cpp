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

// Of "the gunman police killed" and "police killed the gunman" the longest common subsequence has
// two words, of four on both sides.
TEST(Metrics, RougeLIsTheFOfTheLongestCommonSubsequence) {
  const std::vector<std::string> gold = {"police killed the gunman"};
  EXPECT_DOUBLE_EQ(rouge_l("police kill the gunman", gold), 0.75);
  EXPECT_DOUBLE_EQ(rouge_l("the gunman police killed", gold), 0.5);
  EXPECT_DOUBLE_EQ(rouge_l("police", gold), 2 * 1.0 * 0.25 / 1.25);
  EXPECT_DOUBLE_EQ(rouge_l("nobody came", gold), 0.0);
}

TEST(Metrics, RougeLWordsAreRunsOfLettersAndDigitsInLowerCase) {
  const std::vector<std::string> gold = {"It's 3.5 km, caf\xC3\xA9-wide"};  // it s 3 5 km caf wide
  EXPECT_DOUBLE_EQ(rouge_l("IT S 3 5 KM CAF WIDE", gold), 1.0);
  EXPECT_DOUBLE_EQ(rouge_l("its 35 kms", gold), 0.0);
}

TEST(Metrics, RougeLTakesTheBestReferenceAndIsZeroWithoutWords) {
  const std::vector<std::string> gold = {"one two three four", "one two"};
  EXPECT_DOUBLE_EQ(rouge_l("one two", gold), 1.0);
  EXPECT_DOUBLE_EQ(rouge_l("", gold), 0.0);
  EXPECT_DOUBLE_EQ(rouge_l("...", std::vector<std::string>{"?"}), 0.0);
  EXPECT_DOUBLE_EQ(rouge_l("one", {}), 0.0);
}

TEST(Metrics, LikeliestIsAmongTheGivenTokensOnly) {
  const std::vector<float> logits = {9.0F, 1.0F, 3.0F, 2.0F, 3.0F};
  EXPECT_EQ(likeliest_of(logits, std::vector<int32_t>{1, 3, 2}), 2U);
  EXPECT_EQ(likeliest_of(logits, std::vector<int32_t>{4, 2, 1}), 0U) << "of equals the first";
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
