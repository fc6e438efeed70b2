#include "eval/chart_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

AxisRange range(Scale scale, const std::vector<double>& values) {
  return range_over(scale, values);
}

void expect_near(const std::vector<double>& ticks, const std::vector<double>& wanted) {
  EXPECT_THAT(ticks, Pointwise(testing::DoubleNear(1e-9), wanted));
}

TEST(LinearTicks, StepByOneTwoOrFive) {
  expect_near(linear_ticks(0, 1, 6), {0, 0.2, 0.4, 0.6, 0.8, 1});
  expect_near(linear_ticks(0, 1, 5), {0, 0.5, 1});
  expect_near(linear_ticks(13, 47, 5), {20, 30, 40});
  expect_near(linear_ticks(-1, 1, 3), {-1, 0, 1});
}

TEST(LogTicks, ArePowersOfTenWhereThereAreEnough) {
  expect_near(log_ticks(0.001, 1), {0.001, 0.01, 0.1, 1});
  expect_near(log_ticks(0.002, 30), {0.01, 0.1, 1, 10});
}

TEST(LogTicks, ShorterRangesHaveMoreOfThem) {
  expect_near(log_ticks(0.04, 0.6), {0.05, 0.1, 0.2, 0.5});
  expect_near(log_ticks(0.9, 3.5), {1, 1.5, 2, 3});
  expect_near(log_ticks(1.02, 1.31), {1.05, 1.1, 1.15, 1.2, 1.25, 1.3});
}

TEST(TickText, IsShort) {
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(0.05), "0.05");
  EXPECT_EQ(tick_text(1e-5), "1e-5");
  EXPECT_EQ(tick_text(3e12), "3e12");
  EXPECT_EQ(tick_text(0.1 + 0.2), "0.3");
}

TEST(AxisRange, LinearHasRoomOnBothSides) {
  const AxisRange axis = range(Scale::kLinear, {10, 20});

  EXPECT_DOUBLE_EQ(axis.low, 9.4);
  EXPECT_DOUBLE_EQ(axis.high, 20.6);
  EXPECT_DOUBLE_EQ(axis.place_of(15), 0.5);
  EXPECT_EQ(axis.place_of(-100), 0);
  EXPECT_EQ(axis.place_of(100), 1);
}

TEST(AxisRange, LogPlacesEqualRatiosEquallyFarApart) {
  const AxisRange axis = {Scale::kLog, 0.01, 100, false};

  EXPECT_DOUBLE_EQ(axis.place_of(0.1), 0.25);
  EXPECT_DOUBLE_EQ(axis.place_of(1), 0.5);
  EXPECT_DOUBLE_EQ(axis.place_of(10), 0.75);
}

TEST(AxisRange, WhatHasNoLogarithmStandsAtAFloorBelowAllOthers) {
  const AxisRange axis = range(Scale::kLog, {0, 0.03, 2, 0.01});

  EXPECT_TRUE(axis.has_floor);
  EXPECT_DOUBLE_EQ(axis.low, 0.001);
  EXPECT_EQ(axis.place_of(0), 0);
  EXPECT_GT(axis.place_of(0.01), 0.1);
  EXPECT_FALSE(range(Scale::kLog, {0.03, 2}).has_floor);
}

TEST(AxisRange, LogReachesOverFiveDecadesAtMost) {
  const AxisRange axis = range(Scale::kLog, {1e-12, 1e-3, 3});

  EXPECT_TRUE(axis.has_floor);
  EXPECT_DOUBLE_EQ(axis.low, 1e-5);  // log10(3) - 5, down to a whole number
}

TEST(AxisRange, TakesAnyValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const Scale scale : {Scale::kLinear, Scale::kLog}) {
    for (const std::vector<double>& values :
         {std::vector<double>{}, {nan}, {0}, {-3}, {5}, {infinite, 2}, {5, 5}}) {
      const AxisRange axis = range(scale, values);
      EXPECT_LT(axis.low, axis.high) << testing::PrintToString(values);
      EXPECT_TRUE(std::isfinite(axis.low) && std::isfinite(axis.high));
      EXPECT_TRUE(scale == Scale::kLinear || axis.low > 0);
      EXPECT_THAT(axis.place_of(nan), DoubleNear(0, 0));
    }
  }
}

}  // namespace
}  // namespace tessera
