#include "bench/load_arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kRounding = 1e-6;

std::string error_of(const std::string& text) {
  try {
    parse_arrivals(text, "trace");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    return error.what();
  }
  return "";
}

TEST(LoadArrivals, ObjectsGiveTheirTimestampsInOrder) {
  const std::string text =
      "{\"timestamp\": 3000, \"input_length\": 7}\n\n{\"timestamp\": 500, \"hash_ids\": [1]}\n";

  EXPECT_THAT(parse_arrivals(text, "trace"), ElementsAre(0.5, 3));
}

TEST(LoadArrivals, TableGivesItsColumnAcrossMidnight) {
  const std::string text =
      "ContextTokens,TIMESTAMP,GeneratedTokens\r\n"
      "374,2023-11-16 23:59:59.5000000,44\r\n"
      "396,2023-11-17 00:00:01.7500000,109\r\n"
      "396,2023-11-17T00:00:02,1";

  const std::vector<double> times = parse_arrivals(text, "trace");

  ASSERT_EQ(times.size(), 3U);
  EXPECT_NEAR(times[1] - times[0], 2.25, kRounding);
  EXPECT_NEAR(times[2] - times[1], 0.25, kRounding);
  EXPECT_NEAR(times[2], 1700179202, kRounding);
}

TEST(LoadArrivals, WhatIsNoTimeIsNamedWithItsLine) {
  EXPECT_THAT(error_of("{\"timestamp\": \"soon\"}"), HasSubstr("trace line 1 - "));
  EXPECT_THAT(error_of("{\"timestamp\": 1}\n{\"time\": 2}"), HasSubstr("trace line 2 - "));
  EXPECT_THAT(error_of("{\"timestamp\": 1}\n2"), HasSubstr("trace line 2 - "));
  EXPECT_THAT(error_of("a,b\n1,2"), HasSubstr("TIMESTAMP"));
  EXPECT_THAT(error_of("{bad"), HasSubstr("trace line 1 - "));
  for (const char* time : {"", "2023-11-16", "2023-13-16 00:00:00", "2023-02-30 00:00:00",
                           "2023-11-16 24:00:00", "2023-11-16 00:00:0x", "2023-11-16 00:00:00 PM"})
    EXPECT_THAT(error_of(std::string("TIMESTAMP,n\n") + time + ",1"), HasSubstr("line 2")) << time;
}

TEST(LoadArrivals, StretchOfATraceIsInUnitsOfItsMeanGap) {
  const std::vector<double> times = {10, 11, 13, 14};  // mean gap 4/3

  const std::vector<Gaps> runs = trace_gaps(times, "trace", 2, 3, 1);

  ASSERT_EQ(runs.size(), 2U);
  for (const Gaps& gaps : runs) {
    EXPECT_THAT(gaps, ElementsAre(DoubleNear(0.75, kRounding), DoubleNear(1.5, kRounding),
                                  DoubleNear(0.75, kRounding)));
  }
}

TEST(LoadArrivals, StretchesBeginAnywhere) {
  const std::vector<double> times = {0, 1, 3, 6, 10};

  const std::vector<Gaps> runs = trace_gaps(times, "trace", 100, 1, 1);

  for (const double gap : {0.4, 0.8, 1.2, 1.6})
    EXPECT_THAT(runs, testing::Contains(ElementsAre(DoubleNear(gap, kRounding)))) << gap;
}

TEST(LoadArrivals, TraceThatIsTooShortOrOfOneTimeIsRefused) {
  EXPECT_THROW(trace_gaps(std::vector<double>{1, 2, 3}, "trace", 1, 3, 1), Error);
  EXPECT_THROW(trace_gaps(std::vector<double>{}, "trace", 1, 1, 1), Error);
  EXPECT_THROW(trace_gaps(std::vector<double>{2, 2, 2}, "trace", 1, 2, 1), Error);
}

}  // namespace
}  // namespace tessera
