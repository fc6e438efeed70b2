#include "tessera/load_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

// With the longest names and numbers that a run is likely to have.
LoadReport report_of(size_t n_requests) {
  LoadReport r;
  r.model = "qwen2.5-coder-1.5b";
  r.top_k = 6;
  r.ttft_bound_ms = 12345;
  r.rates = {0.0123};
  for (const char* name : {"full", "query_aware+paper"}) {
    ConfigLoad& c = r.configs.emplace_back();
    c.config = name;
    c.services.assign(n_requests, {12345, 23456, 34567, 2000, true});
    c.capacity = 0.123;
    c.highest_rate = 0.0456;
    c.at.emplace_back().fill({123456, 12345, 234567, 200});
    for (const QueueValue share : {kUtilisation, kMetShare}) c.at.back()[share] = {1, 1, 1, 200};
    c.at.back()[kQueueLength] = {123, 123, 123, 200};
    for (const QueueValue rate : {kThroughput, kGoodput, kQualityGoodput})
      c.at.back()[rate] = {0.0123, 0.0123, 0.0123, 200};
    r.table.configs.emplace_back(name);
    r.table.rows.emplace_back(n_requests);
  }
  return r;
}

LoadCheck check_of(const LoadReport& report) {
  LoadCheck check;
  check.config = "full";
  check.rate = 0.5;
  check.services = report.configs.front().services;
  check.measured.fill(110);
  check.computed.fill(100);
  check.recursion_off_ms = 0.25;
  return check;
}

TEST(LoadText, NoLineIsLongerThanATerminal) {
  LoadReport report = report_of(100);
  report.check = check_of(report);
  std::istringstream lines(load_text(report, {}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120) << line;
}

TEST(LoadText, TailIsSaidOfManyRequestsOnly) {
  EXPECT_THAT(load_text(report_of(100), {}), HasSubstr("p99"));
  EXPECT_THAT(load_text(report_of(99), {}), Not(HasSubstr("p99")));
}

TEST(LoadText, CheckSaysHowFarItIsOff) {
  LoadReport report = report_of(3);
  EXPECT_THAT(load_text(report, {}), Not(HasSubstr("in real time")));
  report.check = check_of(report);
  const std::string text = load_text(report, {});
  EXPECT_THAT(text, HasSubstr("full at 0.5 requests/s, in real time"));
  EXPECT_THAT(text, HasSubstr("+10.0%"));
}

TEST(LoadText, RateThatDoesNotExistIsNamed) {
  LoadReport report = report_of(3);
  report.configs[0].highest_rate = 0;
  report.configs[1].highest_rate = std::numeric_limits<double>::infinity();
  const std::string text = load_text(report, {});
  EXPECT_THAT(text, HasSubstr("no rate"));
  EXPECT_THAT(text, HasSubstr("any rate"));
}

TEST(LoadJson, HoldsEveryRequestAndRate) {
  LoadReport report = report_of(3);
  report.configs[1].highest_rate = std::numeric_limits<double>::infinity();
  const nlohmann::json out = load_json(report, {});
  ASSERT_EQ(out["configs"].size(), 2U);
  const nlohmann::json& full = out["configs"][0];
  EXPECT_EQ(full["requests"].size(), 3U);
  EXPECT_EQ(full["requests"][0]["total_ms"], 34567);
  EXPECT_EQ(full["highest_rate"], 0.0456);
  EXPECT_EQ(full["at"][0]["rate"], 0.0123);
  EXPECT_EQ(full["at"][0]["ttft_p90_ms"]["value"], 123456);
  EXPECT_TRUE(full["at"][0]["ttft_p99_ms"].is_null()) << "of three requests";
  EXPECT_TRUE(out["configs"][1]["highest_rate"].is_null());
  EXPECT_EQ(out["configs"][1]["holds_at_any_rate"], true);
  EXPECT_TRUE(out["check"].is_null());
}

TEST(LoadText, StoppedBeforeTheFirstRequestSaysNothing) {
  LoadReport report;
  report.table.rows.emplace_back();
  EXPECT_EQ(load_text(report, {}), "");
  EXPECT_TRUE(load_json(report, {})["configs"].empty());
}

}  // namespace
}  // namespace tessera
