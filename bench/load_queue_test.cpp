#include "bench/load_queue.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace tessera {
namespace {

constexpr double kRounding = 1e-9;

// Three requests of 1 s at the server, of which 600 ms go before the first token.
std::vector<Service> three_services() {
  return {{600, 900, 1000, 100, true}, {600, 900, 1000, 200, true}, {600, 900, 1000, 300, false}};
}

TEST(LoadQueue, WaitIsWhatTheServerHasLeftToDo) {
  const Gaps gaps = {1, 0.5, 2};

  const std::vector<Visit> visits = visits_at(gaps, 1, three_services());

  EXPECT_NEAR(visits[0].arrival_ms, 1000, kRounding);
  EXPECT_NEAR(visits[1].arrival_ms, 1500, kRounding);
  EXPECT_NEAR(visits[2].arrival_ms, 3500, kRounding);
  EXPECT_NEAR(visits[0].wait_ms, 0, kRounding);
  EXPECT_NEAR(visits[1].wait_ms, 500, kRounding) << "1000 of the first less 500";
  EXPECT_NEAR(visits[2].wait_ms, 0, kRounding) << "500 + 1000 less 2000";
}

TEST(LoadQueue, TwiceTheRateHalvesTheGaps) {
  const Gaps gaps = {1, 0.5, 2};

  const std::vector<Visit> visits = visits_at(gaps, 2, three_services());

  EXPECT_NEAR(visits[1].wait_ms, 750, kRounding);
  EXPECT_NEAR(visits[2].wait_ms, 750, kRounding) << "750 + 1000 less 1000";
}

TEST(LoadQueue, ValuesOfARunEndWithItsLastAnswer) {
  const Gaps gaps = {1, 0.5, 2};
  const std::vector<Service> services = three_services();

  const QueueValues v = queue_values(visits_at(gaps, 1, services), services, 1000);

  constexpr double kEnd = 4.4;  // s: the last comes at 3.5 and answers for 0.9
  EXPECT_NEAR(v[kThroughput], 3 / kEnd, kRounding);
  EXPECT_NEAR(v[kPromptRate], 600 / kEnd, kRounding);
  EXPECT_NEAR(v[kTtftMean], 2300.0 / 3, kRounding) << "600, 1100, 600";
  EXPECT_NEAR(v[kTtftP50], 600, kRounding);
  EXPECT_NEAR(v[kTtftP90], 1000, kRounding) << "four fifths of the way from 600 to 1100";
  EXPECT_NEAR(v[kWaitMean], 500.0 / 3, kRounding);
  EXPECT_NEAR(v[kWaitP90], 400, kRounding);
  EXPECT_NEAR(v[kQueueLength], 0.5 / kEnd, kRounding) << "one waits, for half a second";
  EXPECT_NEAR(v[kUtilisation], 2.9 / kEnd, kRounding);
  EXPECT_NEAR(v[kMetShare], 2.0 / 3, kRounding);
  EXPECT_NEAR(v[kGoodput], 2 / kEnd, kRounding) << "the first and the last are in time";
  EXPECT_NEAR(v[kQualityGoodput], 1 / kEnd, kRounding) << "of which the last is not good";
}

TEST(LoadQueue, FiguresAreMeansOverRunsWithTheirSpread) {
  const std::vector<Gaps> runs = {{1, 1, 1}, {1, 0.5, 2}};

  const QueueFigures f = queue_figures(runs, 1, three_services(), 1000);

  EXPECT_EQ(f[kWaitMean].n, 2U);
  EXPECT_NEAR(f[kWaitMean].value, 250.0 / 3, kRounding);
  EXPECT_GE(f[kWaitMean].low, 0);
  EXPECT_LT(f[kWaitMean].low, f[kWaitMean].value);
  EXPECT_LE(f[kWaitMean].high, 500.0 / 3);
  EXPECT_GT(f[kWaitMean].high, f[kWaitMean].value);
}

TEST(LoadQueue, WhatIsPerTimeIsOfAllRunsTogether) {
  const std::vector<Gaps> runs = {{1, 1, 1}, {1, 0.5, 2}};

  const QueueFigures f = queue_figures(runs, 1, three_services(), 1000);

  EXPECT_NEAR(f[kSpan].value, 4.15, kRounding) << "3.9 and 4.4 s";
  EXPECT_NEAR(f[kThroughput].value, 6 / 8.3, kRounding);
  EXPECT_NEAR(f[kGoodput].value, 5 / 8.3, kRounding);
  EXPECT_NEAR(f[kUtilisation].value, 5.8 / 8.3, kRounding);
  const QueueFigures many = queue_figures(poisson_gaps(2000, 3, 1), 0.01, three_services(), 1000);
  EXPECT_NEAR(many[kThroughput].value, 0.01, 0.0005) << "no more than comes, also of short runs";
}

// Pollaczek and Khinchine: with equal services the mean wait is rho S / (2 (1 - rho)).
TEST(LoadQueue, PoissonArrivalsWaitAsTheoryHasIt) {
  constexpr size_t kRequests = 200'000;
  const std::vector<Service> services(kRequests, {100, 100, 100, 1, true});
  const std::vector<Gaps> runs = poisson_gaps(1, kRequests, 3);

  for (const double load : {0.3, 0.6, 0.8}) {
    const QueueFigures f = queue_figures(runs, load * 10, services, 1000);
    const double expected = load * 100 / (2 * (1 - load));
    EXPECT_NEAR(f[kWaitMean].value / expected, 1, 0.05) << load;
    EXPECT_NEAR(f[kUtilisation].value, load, 0.01);
  }
}

TEST(LoadQueue, PoissonGapsHaveMeanOneAndBeginAlike) {
  const std::vector<Gaps> many = poisson_gaps(50, 1000, 7);

  double sum = 0;
  for (const Gaps& gaps : many) sum = std::accumulate(gaps.begin(), gaps.end(), sum);
  EXPECT_NEAR(sum / 50'000, 1, 0.02);
  EXPECT_EQ(poisson_gaps(3, 1000, 7)[2], many[2]);
  EXPECT_NE(poisson_gaps(1, 1000, 8)[0], many[0]);
}

TEST(LoadQueue, HighestRateIsWhereTheWaitMeetsTheBound) {
  const std::vector<Gaps> runs = {{1, 1}};
  const std::vector<Service> services = {{600, 900, 1000, 1, true}, {600, 900, 1000, 1, true}};

  // The second may wait 200 ms, so it must come 800 ms behind the first.
  EXPECT_NEAR(highest_rate(runs, services, 800, 0.9), 1.25, 1.25 * 0.001);
  EXPECT_EQ(highest_rate(runs, services, 599, 0.9), 0) << "late without a queue";
  EXPECT_TRUE(std::isinf(highest_rate(runs, services, 800, 0.5))) << "the first never waits";
  EXPECT_TRUE(std::isinf(highest_rate(runs, services, 1600, 1))) << "both at once are in time";
  EXPECT_NEAR(capacity_of(services), 1, kRounding);
}

}  // namespace
}  // namespace tessera
