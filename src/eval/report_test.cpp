#include "eval/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "eval/registry.h"

namespace tessera {
namespace {

using testing::ElementsAre;

Measurement measurement(const std::string& id, const std::string& policy, double kl,
                        const std::string& anchor = "leadin", double ratio = 0.15) {
  Measurement o;
  o.key = {"squad", id, anchor, policy, ratio};
  o.kl = kl;
  o.ttft_ms = 10;
  o.full_ttft_ms = 40;
  o.account = {.independent = 50, .recomputed = 30, .fresh = 20};
  return o;
}

Measurement full(const std::string& id) {
  Measurement o = measurement(id, "full", 0);
  o.key = full_key("squad", id);
  o.ttft_ms = o.full_ttft_ms;
  o.account = {.fresh = 100};
  return o;
}

// Two questions under three policies, and full prefill of both.
std::vector<Measurement> run() {
  return {full("a"),
          full("b"),
          measurement("a", "query_aware", 0.2),
          measurement("b", "query_aware", 0.4),
          measurement("a", "epic", 0.5),
          measurement("b", "epic", 0.7),
          measurement("a", "reuse", 1.0),
          measurement("b", "reuse", 3.0)};
}

const ReportOptions kOptions = {.baseline = "query_aware", .n_resamples = 200, .seed = 1};

size_t metric_index(std::string_view name) {
  size_t i = 0;
  while (metrics()[i].name != name) ++i;
  return i;
}

std::vector<std::string> names(const Group& group) {
  std::vector<std::string> out;
  for (const PolicyLine& line : group.lines) out.push_back(line.policy);
  return out;
}

TEST(Report, GivesMeansOverQuestionsPerPolicyInTheOrderOfTheRegistry) {
  const std::vector<Group> groups = summarize(run(), kOptions);

  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].task, "squad");
  EXPECT_EQ(groups[0].anchor, "leadin");
  EXPECT_THAT(names(groups[0]), ElementsAre("full", "reuse", "epic", "query_aware"));
  const size_t kl = metric_index("kl");
  const PolicyLine& reuse = groups[0].lines[1];
  EXPECT_EQ(reuse.n, 2U);
  EXPECT_DOUBLE_EQ(reuse.metrics[kl].value, 2.0);
  EXPECT_DOUBLE_EQ(reuse.metrics[kl].low, 1.0);
  EXPECT_DOUBLE_EQ(reuse.metrics[kl].high, 3.0);
  EXPECT_DOUBLE_EQ(reuse.metrics[metric_index("ttft_ratio")].value, 4.0);
  EXPECT_DOUBLE_EQ(reuse.metrics[metric_index("rows_share")].value, 0.5);
  EXPECT_DOUBLE_EQ(groups[0].lines[0].metrics[kl].value, 0.0);
  EXPECT_DOUBLE_EQ(groups[0].lines[0].metrics[metric_index("rows_share")].value, 1.0);
}

// The policies differ by 0.3 on both questions: however they are drawn, the difference is certain,
// which the two intervals on their own do not show.
TEST(Report, DifferencesArePairedByQuestion) {
  const std::vector<Group> groups = summarize(run(), kOptions);

  const PolicyLine& epic = groups[0].lines[2];
  const Estimate& d = epic.differences.at(metric_index("kl"));
  EXPECT_EQ(epic.n_paired, 2U);
  EXPECT_NEAR(d.value, 0.3, 1e-12);
  EXPECT_NEAR(d.low, 0.3, 1e-12);
  EXPECT_NEAR(d.high, 0.3, 1e-12);
  EXPECT_TRUE(groups[0].lines[0].differences.empty()) << "full";
  EXPECT_TRUE(groups[0].lines[3].differences.empty()) << "the baseline";
}

TEST(Report, DifferenceTakesOnlyQuestionsThatBothHave) {
  std::vector<Measurement> rows = run();
  rows.push_back(measurement("c", "epic", 100));
  rows.push_back(measurement("d", "query_aware", 100));

  const PolicyLine epic = summarize(rows, kOptions)[0].lines[2];

  EXPECT_EQ(epic.n, 3U);
  EXPECT_EQ(epic.n_paired, 2U);
  EXPECT_NEAR(epic.differences.at(metric_index("kl")).value, 0.3, 1e-12);
}

TEST(Report, WithoutTheBaselineThereAreNoDifferences) {
  ReportOptions options = kOptions;
  options.baseline = "oracle";
  const std::vector<Group> groups = summarize(run(), options);
  for (const PolicyLine& line : groups[0].lines)
    EXPECT_TRUE(line.differences.empty()) << line.policy;
}

TEST(Report, OrderOfRowsDoesNotMatter) {
  std::vector<Measurement> rows = run();
  rows.push_back(measurement("a", "epic", 0.1, "preamble"));
  const std::string expected = report_json(summarize(rows, kOptions)).dump();

  std::reverse(rows.begin(), rows.end());
  EXPECT_EQ(report_json(summarize(rows, kOptions)).dump(), expected);
  std::rotate(rows.begin(), rows.begin() + 3, rows.end());
  EXPECT_EQ(report_json(summarize(rows, kOptions)).dump(), expected);
}

TEST(Report, AnchorsAndRatiosAreKeptApartAndFullStandsInEveryGroup) {
  const std::vector<Measurement> rows = {full("a"), measurement("a", "epic", 0.5, "leadin", 0.5),
                                         measurement("a", "epic", 0.9, "leadin", 0.05),
                                         measurement("a", "query_aware", 0.4, "leadin", 0.05),
                                         measurement("a", "epic", 0.7, "preamble", 0.5)};

  const std::vector<Group> groups = summarize(rows, kOptions);

  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].anchor, "leadin");
  EXPECT_THAT(names(groups[0]), ElementsAre("full", "epic", "epic", "query_aware"));
  EXPECT_EQ(groups[0].lines[1].ratio, 0.05);
  EXPECT_NEAR(groups[0].lines[1].differences.at(metric_index("kl")).value, 0.5, 1e-12);
  EXPECT_EQ(groups[0].lines[2].ratio, 0.5);
  EXPECT_TRUE(groups[0].lines[2].differences.empty()) << "the baseline has another ratio";
  EXPECT_EQ(groups[1].anchor, "preamble");
  EXPECT_THAT(names(groups[1]), ElementsAre("full", "epic"));
}

TEST(Report, FullAloneHasAGroupOfItsOwn) {
  const std::vector<Measurement> rows = {full("a")};
  const std::vector<Group> groups = summarize(rows, kOptions);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].anchor, kNoAnchor);
}

// Means are over the questions that a metric applies to, and so are differences.
TEST(Report, MetricIsOverTheQuestionsThatHaveAValue) {
  std::vector<Measurement> rows = run();
  for (Measurement& o : rows) {
    o.f1 = o.key.policy == "epic" ? 0.5 : 0.75;
    o.full_f1 = o.key.id == "a" ? 1.0 : 0.0;
  }
  rows[4].rouge_l = 0.25;  // epic on "a" is then no short answer

  const std::vector<Group> groups = summarize(rows, kOptions);

  const size_t f1 = metric_index("f1"), answered = metric_index("f1_answered");
  const PolicyLine& reuse = groups[0].lines[1];
  const PolicyLine& epic = groups[0].lines[2];
  EXPECT_EQ(reuse.metrics[f1].n, 2U);
  EXPECT_EQ(reuse.metrics[answered].n, 1U);
  EXPECT_DOUBLE_EQ(reuse.metrics[answered].value, 0.75);
  EXPECT_EQ(epic.n, 2U);
  EXPECT_EQ(epic.metrics[f1].n, 1U);
  EXPECT_DOUBLE_EQ(epic.metrics[f1].value, 0.5);
  EXPECT_EQ(epic.metrics[answered].n, 0U);
  EXPECT_EQ(epic.metrics[metric_index("rouge_l")].n, 1U);
  EXPECT_EQ(epic.n_paired, 2U);
  EXPECT_EQ(epic.differences[f1].n, 1U);
  EXPECT_DOUBLE_EQ(epic.differences[f1].value, -0.25);
  EXPECT_EQ(epic.differences[answered].n, 0U);
}

TEST(Report, NoRowsGiveNoGroups) { EXPECT_TRUE(summarize({}, kOptions).empty()); }

TEST(Report, JsonNamesEveryMetricThatHasAValue) {
  std::vector<Measurement> rows = run();
  for (Measurement& o : rows) o.full_gold_nll = o.full_f1 = 1;
  const nlohmann::json report = report_json(summarize(rows, kOptions));
  for (const Metric& metric : metrics()) {
    const std::string name(metric.name);
    const bool has_value = name != "rouge_l" && name != "accuracy";
    EXPECT_EQ(report[0]["policies"][1]["metrics"].contains(name), has_value) << name;
    EXPECT_EQ(report[0]["policies"][1]["differences"].contains(name), has_value) << name;
    if (!has_value) continue;
    EXPECT_EQ(report[0]["policies"][1]["metrics"][name]["n"], 2) << name;
  }
  EXPECT_TRUE(report[0]["policies"][0]["differences"].empty());
}

}  // namespace
}  // namespace tessera
