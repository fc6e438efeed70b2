#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace tessera {
namespace {

TEST(Quantile, LiesBetweenTwoValuesInProportion) {
  const std::vector<double> sorted = {1, 2, 4, 8, 16};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 0.5), 4);
  EXPECT_EQ(quantile(sorted, 1), 16);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.125), 1.5);  // half way from the first to the second
  EXPECT_EQ(quantile(std::vector<double>{7}, 0.3), 7);
}

TEST(Resamples, DrawEveryQuestionAboutEquallyOften) {
  const Resamples resamples(5, 2000, 1);
  std::vector<int> n_drawn(5);

  for (size_t i = 0; i < resamples.size(); ++i)
    for (const uint32_t pick : resamples[i]) ++n_drawn.at(pick);

  // Binomial with 10,000 draws and p = 1/5: standard deviation 40.
  for (const int n : n_drawn) EXPECT_NEAR(n, 2000, 200);
}

TEST(Resamples, DependOnTheSeedAlone) {
  const Resamples a(7, 50, 3), same(7, 50, 3), other(7, 50, 4);
  const auto is_equal = [&](const Resamples& b) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!std::ranges::equal(a[i], b[i])) return false;
    return true;
  };
  EXPECT_TRUE(is_equal(same));
  EXPECT_FALSE(is_equal(other));
}

TEST(Estimate, OfOneQuestionHasNoWidth) {
  const Estimate e = estimate(std::vector<double>{3.5}, Statistic::kMean, Resamples(1, 100, 0));
  EXPECT_EQ(e.value, 3.5);
  EXPECT_EQ(e.low, 3.5);
  EXPECT_EQ(e.high, 3.5);
}

// Of two questions 0 and 1 the resampled mean is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4, so
// both tails lie inside the outer values.
TEST(Estimate, OfTwoQuestionsSpansBoth) {
  const Estimate e = estimate(std::vector<double>{0, 1}, Statistic::kMean, Resamples(2, 1000, 5));
  EXPECT_EQ(e.value, 0.5);
  EXPECT_EQ(e.low, 0);
  EXPECT_EQ(e.high, 1);
}

// By hand, from the draws themselves.
TEST(Estimate, IsTheQuantileOverTheResampledMeans) {
  const std::vector<double> values = {1, 2, 4, 8};
  const Resamples resamples(4, 41, 9);
  std::vector<double> means;
  for (size_t i = 0; i < resamples.size(); ++i) {
    double sum = 0;
    for (const uint32_t pick : resamples[i]) sum += values[pick];
    means.push_back(sum / 4);
  }
  std::sort(means.begin(), means.end());

  const Estimate e = estimate(values, Statistic::kMean, resamples);

  EXPECT_DOUBLE_EQ(e.value, 15.0 / 4);
  EXPECT_DOUBLE_EQ(e.low, means[1]);    // 0.025 * 40
  EXPECT_DOUBLE_EQ(e.high, means[39]);  // 0.975 * 40
}

TEST(Estimate, MedianIgnoresAnOutlier) {
  const std::vector<double> values = {1, 2, 3, 4, 1000};
  const Estimate e = estimate(values, Statistic::kMedian, Resamples(5, 500, 2));
  EXPECT_EQ(e.value, 3);
  EXPECT_GE(e.low, 1);
}

// A constant shift moves every resample alike: what is paired has no spread.
TEST(Estimate, SharedDrawsMakeAConstantDifferenceCertain) {
  const std::vector<double> values = {0.3, 0.1, 0.9, 0.4, 0.2, 0.7};
  std::vector<double> shifted = values;
  for (double& v : shifted) v += 0.25;
  const Resamples resamples(values.size(), 300, 11);

  const Estimate a = estimate(values, Statistic::kMean, resamples);
  const Estimate b = estimate(shifted, Statistic::kMean, resamples);

  EXPECT_NEAR(b.low - a.low, 0.25, 1e-12);
  EXPECT_NEAR(b.high - a.high, 0.25, 1e-12);
}

// 95% intervals of 300 samples of 30 uniform values: the percentile interval of so few is a little
// narrow, so about 93% of them hold the true mean. Standard deviation of that share: 1.5%.
TEST(Estimate, IntervalHoldsTheTrueMeanAboutAsOftenAsItSays) {
  const Resamples resamples(30, 200, 1);
  std::mt19937_64 random(17);
  int n_covered = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<double> values(30);
    for (double& v : values)
      v = static_cast<double>(random()) / static_cast<double>(std::mt19937_64::max());
    const Estimate e = estimate(values, Statistic::kMean, resamples);
    n_covered += e.low <= 0.5 && 0.5 <= e.high ? 1 : 0;
  }
  EXPECT_GT(n_covered, 300 * 0.87);
  EXPECT_LT(n_covered, 300 * 0.99);
}

}  // namespace
}  // namespace tessera
