#include "bench/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "bench/trace.h"
#include "bench/trace_pairs.h"
#include "bench/trace_results.h"

namespace tessera {
namespace {

using testing::Contains;

constexpr double kRounding = 1e-9;

SegmentReport chunk_of(Match match, int32_t n_tokens) {
  SegmentReport out;
  out.kind = SegmentKind::kChunk;
  out.match = match;
  out.n_tokens = n_tokens;
  return out;
}

TraceRow row_of(double ttft_ms, std::vector<SegmentReport> segments) {
  TraceRow row;
  row.n_full = 100;
  row.rows = 25;
  row.ttft_ms = ttft_ms;
  row.n_given = 6;
  row.n_seen = 6;
  row.segments = std::move(segments);
  return row;
}

// `n` requests under full prefill, which takes four and two times as long by turns, adacache, and
// adacache with adaptive context, which sees 2 passages and 6 by turns and answers worse.
TraceTable table_of(size_t n) {
  TraceTable table;
  table.configs = {"full", "adacache", "adacache+aca"};
  table.rows.resize(3);
  for (size_t i = 0; i < n; ++i) {
    const std::vector<SegmentReport> found = {chunk_of(Match::kSoft, 30),
                                              chunk_of(Match::kMiss, 10)};
    const bool is_quick = i % 2 == 0;
    table.rows[0].push_back(row_of(is_quick ? 400 : 600, {chunk_of(Match::kMiss, 40)}));
    table.rows[1].push_back(row_of(is_quick ? 100 : 300, found));
    TraceRow adaptive = row_of(is_quick ? 100 : 300, found);
    adaptive.n_seen = is_quick ? 2 : 6;
    adaptive.adaptive.emplace();
    adaptive.adaptive->is_confident = is_quick;
    table.rows[2].push_back(adaptive);
    for (std::vector<TraceRow>& rows : table.rows) {
      rows.back().source = "a/squad.dev.jsonl";
      rows.back().f1 = 0.5;
    }
    table.rows[2].back().f1 = 0.4;
  }
  return table;
}

RunReport report_of(const TraceTable& table) {
  const Resamples resamples(table.rows.front().size(), 50, 1);
  RunReport report;
  report.model = "m";
  report.top_k = 6;
  report.is_of_paper = true;
  report.n_requests = table.rows.front().size();
  report.configs = config_figures(table, resamples);
  report.pairs = pair_figures(table, resamples);
  report.f1_differences = f1_differences(table, resamples, true);
  report.sources = source_figures(table);
  report.steady = steady_figures(table);
  return report;
}

std::vector<std::string> names_of(const std::vector<BenchResult>& results) {
  std::vector<std::string> out;
  for (const BenchResult& r : results) out.push_back(r.name);
  return out;
}

TEST(TraceReport, FiguresOfEachConfiguration) {
  const std::vector<ConfigFigures> figures = report_of(table_of(10)).configs;

  ASSERT_EQ(figures.size(), 3);
  EXPECT_DOUBLE_EQ(figures[0].full_ratio.value, 1);
  EXPECT_DOUBLE_EQ(figures[1].full_ratio.value, 2.5);  // 1000 / 400
  EXPECT_LT(figures[1].full_ratio.low, 2.5);
  EXPECT_GT(figures[1].full_ratio.high, 2.5);
  EXPECT_DOUBLE_EQ(figures[1].ttft.mean, 200);
  EXPECT_DOUBLE_EQ(figures[1].ttft.p90, 300);
  EXPECT_DOUBLE_EQ(figures[1].rows_share, 0.25);
  ASSERT_EQ(figures[1].matches.size(), 4);
  EXPECT_EQ(figures[1].matches[1].name, "soft");
  EXPECT_DOUBLE_EQ(figures[1].matches[1].share, 0.75);
  EXPECT_DOUBLE_EQ(figures[1].matches[3].share, 0.25);
  EXPECT_FALSE(figures[1].context.has_value());
  ASSERT_TRUE(figures[2].context.has_value());
  EXPECT_DOUBLE_EQ(figures[2].n_seen, 4);
  EXPECT_DOUBLE_EQ(figures[2].context->seen_shares.at(2), 0.5);
  EXPECT_DOUBLE_EQ(figures[2].context->seen_deviation, 2);
  EXPECT_DOUBLE_EQ(figures[2].context->confident_share, 0.5);
}

TEST(TraceReport, TheTailNeedsAHundredRequests) {
  EXPECT_FALSE(report_of(table_of(99)).configs.front().ttft.p99.has_value());
  EXPECT_TRUE(report_of(table_of(100)).configs.front().ttft.p99.has_value());
}

TEST(TraceReport, PairsCarryThePapersMeanWhereItReportsThem) {
  const std::vector<PairFigures> pairs = report_of(table_of(4)).pairs;

  ASSERT_EQ(pairs.size(), 2);
  EXPECT_EQ(pairs[0].sooner.config, "adacache");
  EXPECT_FALSE(pairs[0].paper_mean.has_value());
  EXPECT_EQ(pairs[1].sooner.config, "adacache+aca");
  EXPECT_EQ(pairs[1].paper_mean, 3.12);
  EXPECT_DOUBLE_EQ(pairs[1].ratio.value, 2.5);
  EXPECT_DOUBLE_EQ(pairs[1].mean_of_ratios, 3);
  EXPECT_DOUBLE_EQ(pairs[1].greatest_ratio, 4);
  EXPECT_NEAR(pairs[1].slower.f1, 0.5, kRounding);
  EXPECT_NEAR(pairs[1].sooner.f1, 0.4, kRounding);
}

TEST(TraceReport, RunsLikeThePapersHaveAWarmWholeStoreAndSixPassagesAsRetrieved) {
  const TraceOptions like_it = {};

  EXPECT_TRUE(is_of_paper(like_it, 6));
  EXPECT_FALSE(is_of_paper(like_it, 8));
  TraceOptions other = like_it;
  other.mode = StoreMode::kFilling;
  EXPECT_FALSE(is_of_paper(other, 6));
  other = like_it;
  other.store_limit_bytes = 1;
  EXPECT_FALSE(is_of_paper(other, 6));
  other = like_it;
  other.store_share = 0.5;
  EXPECT_FALSE(is_of_paper(other, 6));
  other = like_it;
  other.is_novel = true;
  EXPECT_FALSE(is_of_paper(other, 6));
}

TEST(TraceReport, AdaptiveContextIsHeldAgainstItsPolicyRequestByRequest) {
  const std::vector<F1Difference> differences = report_of(table_of(10)).f1_differences;

  ASSERT_EQ(differences.size(), 1);
  EXPECT_EQ(differences[0].adaptive, "adacache+aca");
  EXPECT_EQ(differences[0].fixed, "adacache");
  EXPECT_NEAR(differences[0].difference.value, -0.1, kRounding);
}

TEST(TraceReport, FiftyRequestsBoundTheLossOfF1InRunsLikeThePapers) {
  const TraceTable few = table_of(49), many = table_of(50);
  const Resamples of_few(49, 50, 1), of_many(50, 50, 1);

  EXPECT_FALSE(f1_differences(few, of_few, true).front().low_target.has_value());
  EXPECT_FALSE(f1_differences(many, of_many, false).front().low_target.has_value());
  EXPECT_EQ(f1_differences(many, of_many, true).front().low_target, -0.05);
  const std::vector<BenchResult> results = results_of(report_of(many));
  const std::string name = "m trace top-6 F1 adacache+aca - adacache, low end of 95%";
  const auto low = std::ranges::find(results, name, &BenchResult::name);
  ASSERT_TRUE(low != results.end());
  EXPECT_EQ(low->target, -0.05);
  EXPECT_FALSE(low->ok());
}

TEST(TraceReport, SeveralFilesAreAlsoReportedOneByOne) {
  TraceTable table = table_of(4);
  EXPECT_TRUE(source_figures(table).empty());
  for (std::vector<TraceRow>& rows : table.rows) rows.front().source = "a/hotpotqa.dev.jsonl";

  const std::vector<SourceFigures> sources = source_figures(table);

  ASSERT_EQ(sources.size(), 2);
  EXPECT_EQ(sources[1].name, "squad.dev");
  EXPECT_EQ(sources[1].n_requests, 3);
}

TEST(TraceReport, OnlyLongTracesHaveAFloorForTheirSteadyState) {
  EXPECT_FALSE(steady_figures(table_of(400)).front().floor.has_value());
  TraceTable table = table_of(1000);
  for (size_t i = 800; i < 1000; ++i) table.rows[1][i].segments = {chunk_of(Match::kMiss, 40)};

  const std::vector<SteadyFigures> steady = steady_figures(table);

  ASSERT_EQ(steady.size(), 2);  // full prefill finds nothing
  EXPECT_EQ(steady.front().window, 200);
  EXPECT_EQ(steady.front().floor, -2);
  EXPECT_DOUBLE_EQ(steady.front().found_change, -75);
  EXPECT_DOUBLE_EQ(steady.back().found_change, 0);
}

TEST(TraceReport, AModelledTraceIsHeldAgainstTheRequestsThatWereRealToo) {
  const std::vector<TraceRow> real(
      4, row_of(1, {chunk_of(Match::kSoft, 30), chunk_of(Match::kMiss, 10)}));
  std::vector<TraceRow> modelled(
      4, row_of(1, {chunk_of(Match::kSoft, 20), chunk_of(Match::kMiss, 20)}));
  modelled.push_back(row_of(1, {chunk_of(Match::kExact, 400)}));
  ModelledFigures figures;

  check_modelled(real, modelled, figures);

  EXPECT_EQ(figures.n_checked, 4);
  EXPECT_DOUBLE_EQ(figures.real[1].share, 0.75);
  EXPECT_DOUBLE_EQ(figures.modelled[1].share, 0.5);
  EXPECT_DOUBLE_EQ(figures.greatest_difference, 25);
}

TEST(TraceReport, GenerationsThatWereNotFinishedAreLeftOut) {
  TraceTable table = table_of(5);
  for (size_t i = 0; i < 5; ++i) table.rows[1][i].kl_seen = i < 2 ? 0.2 : 0.1;
  table.rows[1][2].segments.front().approximation_depth = 1;

  const std::vector<LineageFigures> lineage = lineage_figures(table, 2, {"adacache"});

  ASSERT_EQ(lineage.size(), 2);
  ASSERT_EQ(lineage.front().generations.size(), 2);
  EXPECT_DOUBLE_EQ(*lineage.front().kl_growth, 0.5);
  EXPECT_EQ(lineage.front().generations.back().depth, 1);
  EXPECT_TRUE(lineage.front().is_bounded);
  EXPECT_FALSE(lineage.back().is_bounded);
  EXPECT_FALSE(lineage.back().kl_growth.has_value());  // from 0
}

TEST(TraceReport, OnlyAdaCacheThatTakesNoApproximateKvForExactIsBounded) {
  const std::vector<std::string> names = {"adacache", "adacache+aca", "adacache+paper", "epic"};
  const std::vector<bool> expected = {false, true, true, false, false};  // full prefill first
  PolicyOptions as_paper;
  as_paper.hard_as_paper = true;

  const std::vector<TraceConfig> configs = trace_configs(names, {});

  ASSERT_EQ(configs.size(), expected.size());
  for (size_t i = 0; i < configs.size(); ++i) EXPECT_EQ(is_bounded(configs[i]), expected[i]);
  EXPECT_TRUE(std::ranges::none_of(trace_configs(names, as_paper), is_bounded));
}

TEST(TraceReport, EveryResultHasANameOfItsOwn) {
  const std::vector<std::string> names = names_of(results_of(report_of(table_of(100))));

  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_THAT(names, Contains("m trace top-6 adacache soft, share of chunk tokens"));
  EXPECT_THAT(names, Contains("m trace top-6 adacache ttft p99"));
  EXPECT_THAT(names, Contains("m trace top-6 adacache+aca saw 2 passages, share of requests"));
  EXPECT_THAT(names, Contains("m trace top-6 ttft full / adacache+aca, ratio of means"));
  EXPECT_THAT(names, Contains("m trace top-6 F1 adacache+aca - adacache, low end of 95%"));
}

TEST(TraceReport, ThePapersMeansAreTargetsOnlyOfRunsLikeThePapers) {
  RunReport report = report_of(table_of(4));
  const auto has_target = [](const BenchResult& r) { return r.target.has_value(); };

  EXPECT_TRUE(std::ranges::any_of(results_of(report), has_target));
  report.is_of_paper = false;
  EXPECT_TRUE(std::ranges::none_of(results_of(report), has_target));
}

TEST(TraceReport, NumbersOfPassagesAreComparedWithThePapersOwn) {
  const TopKReport report = {"m", {{2, 3.0, std::nullopt}, {8, 4.5, std::nullopt}}};

  const std::vector<BenchResult> results = results_of(report);

  ASSERT_EQ(results.size(), 5);
  EXPECT_DOUBLE_EQ(results.back().value, 1.5);
}

TEST(TraceReport, RowsNameTheKeysThatASoftMatchWasFoundBy) {
  SegmentReport soft = chunk_of(Match::kSoft, 30);
  soft.matched_sink = "ab12";

  const nlohmann::ordered_json record =
      record_of(row_of(1, {soft, chunk_of(Match::kIndependent, 30)}));

  ASSERT_EQ(record["segments"].size(), 2);
  EXPECT_EQ(record["segments"][0]["matched"]["sink"], "ab12");
  EXPECT_EQ(record["segments"][0]["matched"]["predecessor"], "");
  EXPECT_FALSE(record["segments"][1].contains("matched"));
}

}  // namespace
}  // namespace tessera
