#include "tessera/bench_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

const MatchShares kMatches = {{"hard", 0.1}, {"soft", 0.2}, {"independent", 0.3}, {"miss", 0.4}};

ConfigFigures config_of(const std::string& name) {
  ConfigFigures c;
  c.config = name;
  c.matches = kMatches;
  c.rows_share = 0.17;
  c.ttft = {12345, 12345, 12345, std::nullopt};
  c.full_ratio = {4.274, 3.351, 15.47};
  c.n_seen = 3.25;
  return c;
}

// With the longest names and numbers that a run is likely to have.
RunReport run_of(size_t n_requests) {
  RunReport r;
  r.model = "smollm2-135m";
  r.top_k = 6;
  r.n_requests = n_requests;
  r.n_given = 6;
  r.is_of_paper = true;
  r.configs = {config_of("full"), config_of("query_aware"), config_of("query_aware+aca")};
  ContextFigures& context = r.configs.back().context.emplace();
  for (int32_t seen = 1; seen <= 40; ++seen) context.seen_shares[seen] = 0.025;
  r.pairs = {{{"full"}, {"adacache+aca"}, {2.5, 2, 4}, 3, 5, 3.12},
             {{"prefix"}, {"adacache+aca"}, {2, 1, 2.5}, 3, 5, 2.69},
             {{"cacheblend"}, {"adacache+aca"}, {2, 1.5, 2.5}, 3, 5, 1.32},
             {{"full"}, {"epic"}, {2, 1.5, 2.5}, 3, 5, std::nullopt}};
  r.f1_differences = {{"query_aware+aca", "query_aware", {0.1, -0.02, 0.2}, std::nullopt}};
  r.stores = {{"query_aware", 500, 1'000'000, 2'000'000, 30}};
  return r;
}

void expect_short_lines(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120) << line;
}

TEST(TraceText, NoLineIsLongerThanATerminal) {
  RunReport r = run_of(100);
  r.sources = {{"squad", 60, {{"query_aware+aca", 3, r.configs.back().context, 1.5}}}};
  r.steady = {{"query_aware+aca", 200, kMatches, kMatches, 1.5, 2.0}};
  LongReport modelled;
  modelled.configs = {
      {"query_aware+paper", 1.5, kMatches, 0.2, 12345, 100, kMatches, kMatches, 0.5}};
  modelled.steady = r.steady;
  GenerationsReport generations;
  for (int i = 0; i < 7; ++i)
    generations.configs.push_back({"adacache+paper+aca", {{0.29, 0.1, 0}, {0.03, 0.1, 1}}, 0.1, 1});

  expect_short_lines(trace_text(r));
  expect_short_lines(trace_text(modelled));
  expect_short_lines(trace_text(generations));
}

TEST(TraceText, OneRowForEachConfiguration) {
  const std::string text = trace_text(run_of(30));

  EXPECT_THAT(text, HasSubstr("\nquery_aware "));
  EXPECT_THAT(text, HasSubstr("4.27 [3.35, 15.5]    0.17   10%   20%   30%   40%  3.25"));
  EXPECT_THAT(text, HasSubstr("F1 less that of query_aware 0.10 [-0.02, 0.20]"));
}

TEST(TraceText, AnIntervalThatHoldsThePapersMeanDecidesNothing) {
  const std::string text = trace_text(run_of(20));

  EXPECT_THAT(text, HasSubstr("AdaCache paper's mean"));
  EXPECT_THAT(text, HasSubstr("3.12  within the interval\n"));
  EXPECT_THAT(text, HasSubstr("2.69  missed\n"));
  EXPECT_THAT(text, HasSubstr("1.32  ok\n"));
  EXPECT_THAT(text, Not(HasSubstr("full / epic")));
}

TEST(TraceText, FewRequestsHaveNoVerdict) {
  const std::string text = trace_text(run_of(19));

  EXPECT_THAT(text, HasSubstr("AdaCache paper's mean"));
  EXPECT_THAT(text, Not(HasSubstr("missed")));
  EXPECT_THAT(text, HasSubstr("Fewer than 20 requests"));
}

TEST(TraceText, OtherRunsThanThePapersHaveNoVerdict) {
  RunReport r = run_of(100);
  r.is_of_paper = false;

  const std::string text = trace_text(r);

  EXPECT_THAT(text, Not(HasSubstr("missed")));
  EXPECT_THAT(text, HasSubstr("decide nothing here"));
}

TEST(TraceText, FewerPassagesThanAskedForAreSaid) {
  RunReport r = run_of(3);
  EXPECT_THAT(trace_text(r), HasSubstr("passages given, mean 6.00\n"));
  r.n_given = 5.97;

  EXPECT_THAT(trace_text(r), HasSubstr("passages given, mean 5.97 of 6: keyword search found"));
}

TEST(TraceText, ALossOfF1ThatMayBeTooGreatIsMissed) {
  RunReport r = run_of(50);
  r.f1_differences.front().low_target = -0.05;
  EXPECT_THAT(trace_text(r), HasSubstr("(low end at least -0.05: ok)"));
  r.f1_differences.front().difference.low = -0.06;

  EXPECT_THAT(trace_text(r), HasSubstr("(low end at least -0.05: missed)"));
}

TEST(TraceText, AColdStoreHasNothingToShow) {
  RunReport r = run_of(3);
  EXPECT_THAT(trace_text(r), HasSubstr("storing after the answer"));
  EXPECT_THAT(trace_text(r), HasSubstr("store at the end"));
  r.is_cold = true;

  EXPECT_THAT(trace_text(r), Not(HasSubstr("storing after the answer")));
  EXPECT_THAT(trace_text(r), Not(HasSubstr("store at the end")));
}

// However many generations there are: the means are of the lists.
TEST(TraceText, FewListsSayNothingOfTheGrowthOfKl) {
  GenerationsReport r;
  r.configs = {{"adacache", {{0.1, 0, 0}, {0.13, 0.1, 1}}, 1.3, 1, true}};
  r.n_lists = 19;
  EXPECT_THAT(trace_text(r), HasSubstr("/ the first 1.30, greatest depth 1 (at most 1: ok)"));
  r.n_lists = 20;

  EXPECT_THAT(trace_text(r), HasSubstr("/ the first 1.30 (at most 1.2: missed)"));
}

}  // namespace
}  // namespace tessera
