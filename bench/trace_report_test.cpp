#include "bench/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "bench/trace_pairs.h"
#include "bench/trace_results.h"

namespace tessera {
namespace {

using testing::Contains;

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

// `n` requests under full prefill, which takes four times as long, adacache, and adacache with
// adaptive context, which sees 2 passages and 6 by turns.
TraceTable table_of(size_t n) {
  TraceTable table;
  table.configs = {"full", "adacache", "adacache+aca"};
  table.rows.resize(3);
  for (size_t i = 0; i < n; ++i) {
    const std::vector<SegmentReport> found = {chunk_of(Match::kSoft, 30),
                                              chunk_of(Match::kMiss, 10)};
    table.rows[0].push_back(row_of(400, {chunk_of(Match::kMiss, 40)}));
    table.rows[1].push_back(row_of(100, found));
    TraceRow adaptive = row_of(100, found);
    adaptive.n_seen = i % 2 == 0 ? 2 : 6;
    adaptive.adaptive.emplace();
    adaptive.adaptive->is_confident = i % 2 == 0;
    table.rows[2].push_back(adaptive);
    for (std::vector<TraceRow>& rows : table.rows) rows.back().source = "a/squad.dev.jsonl";
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
  EXPECT_DOUBLE_EQ(figures[1].full_ratio.value, 4);
  EXPECT_DOUBLE_EQ(figures[1].rows_share, 0.25);
  ASSERT_EQ(figures[1].tiers.size(), 4);
  EXPECT_EQ(figures[1].tiers[1].name, "soft");
  EXPECT_DOUBLE_EQ(figures[1].tiers[1].share, 0.75);
  EXPECT_DOUBLE_EQ(figures[1].tiers[3].share, 0.25);
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

TEST(TraceReport, OnlyLongTracesHaveACeilingForTheirSteadyState) {
  EXPECT_FALSE(steady_figures(table_of(400)).front().ceiling.has_value());
  const std::vector<SteadyFigures> steady = steady_figures(table_of(1000));

  ASSERT_EQ(steady.size(), 2);  // full prefill finds nothing
  EXPECT_EQ(steady.front().window, 200);
  EXPECT_EQ(steady.front().ceiling, 2);
  EXPECT_DOUBLE_EQ(steady.front().found_difference, 0);
}

TEST(TraceReport, GenerationsThatWereNotFinishedAreLeftOut) {
  TraceTable table = table_of(5);
  for (size_t i = 0; i < 5; ++i) table.rows[1][i].kl = i < 2 ? 0.2 : 0.1;
  table.rows[1][2].segments.front().approximation_depth = 1;

  const std::vector<LineageFigures> lineage = lineage_figures(table, 2);

  ASSERT_EQ(lineage.size(), 2);
  ASSERT_EQ(lineage.front().generations.size(), 2);
  EXPECT_DOUBLE_EQ(*lineage.front().kl_growth, 0.5);
  EXPECT_EQ(lineage.front().generations.back().depth, 1);
  EXPECT_TRUE(lineage.front().is_bounded);
  EXPECT_FALSE(lineage.back().is_bounded);
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
  EXPECT_EQ(record["segments"][0]["matched_sink"], "ab12");
  EXPECT_EQ(record["segments"][0]["matched_predecessor"], "");
  EXPECT_FALSE(record["segments"][1].contains("matched_sink"));
}

}  // namespace
}  // namespace tessera
