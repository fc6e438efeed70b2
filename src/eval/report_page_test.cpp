#include "eval/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/report_csv.h"
#include "eval/report_table.h"
#include "eval/report_testing.h"

namespace tessera {
namespace {

using report_testing::full_row;
using report_testing::row;
using report_testing::run_of;
using testing::HasSubstr;
using testing::Not;

const ReportOptions kOptions = {.baseline = "reuse", .n_resamples = 100, .seed = 0};

RunFile two_policies() {
  return run_of({full_row("a"), full_row("b"), row("a", "reuse", 0.15, 1, 8),
                 row("b", "reuse", 0.15, 3, 8), row("a", "epic", 0.15, 0.5, 4),
                 row("b", "epic", 0.15, 0.5, 4)});
}

std::string page_of(const RunFile& file) {
  const ReportedRun run = report_run(file, kOptions);
  return report_page({&run, 1});
}

TEST(ReportPage, HasTableFiguresAndOrigin) {
  const std::string page = page_of(two_policies());

  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
  for (const char* text :
       {"small: run.jsonl", "squad, anchor leadin", ">KL - reuse<", "<td>2.0000<small>[1.0000, ",
        "A lead, not a result", "<svg ", "On the frontier: full, reuse, epic 0.15.",
        "Full prefill is the origin of both axes", "a cpu", "2026-12-01T00:00:00Z", ">max_tokens<"})
    EXPECT_THAT(page, HasSubstr(text));
}

TEST(ReportPage, NeedsNeitherNetworkNorScript) {
  const std::string page = page_of(two_policies());

  for (const char* text : {"<script", "<link", "src=", "href=", "@import", "url("})
    EXPECT_THAT(page, Not(HasSubstr(text)));
}

TEST(ReportPage, WhatFilesSayCannotBecomeMarkup) {
  const std::string bad = "<img src=x onerror=alert(1)>\"'&";
  Measurement full = full_row("a"), other = row("a", bad, 0.15, 0.5);
  full.key.task = other.key.task = bad;
  other.key.anchor = bad;
  RunFile file = run_of({full, other});
  file.name = bad;
  file.config[bad] = bad;
  file.sessions[0]["model"] = bad;
  file.sessions[0]["tasks"] = {bad};

  const std::string page = page_of(file);

  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;"));
}

TEST(ReportPage, SaysNothingOfLeadsWhereQuestionsAreEnough) {
  RunFile file = run_of({});
  for (int i = 0; i < 30; ++i) {
    const Measurement o = row(std::to_string(i), "epic", 0.15, 0.5);
    file.rows[o.key] = o;
  }

  EXPECT_THAT(page_of(file), Not(HasSubstr("A lead")));
}

TEST(ReportedRun, TakesTheSeedOfItsConfig) {
  RunFile file = two_policies();
  file.config["seed"] = 5;

  const ReportedRun run = report_run(file, kOptions);

  std::vector<Measurement> rows;
  for (const auto& [key, measurement] : file.rows) rows.push_back(measurement);
  ReportOptions options = kOptions;
  options.seed = 5;
  EXPECT_EQ(report_json(run.groups), report_json(summarize(rows, options)));
}

TEST(ReportTable, SaysOverHowManyAValueIsWhereNotOverAll) {
  EXPECT_EQ(estimate_cell({0.25, 0.125, 0.5, 4}, 2, 4).text(), "0.25 [0.12, 0.50]");
  EXPECT_EQ(estimate_cell({0.25, 0.125, 0.5, 3}, 1, 4).text(), "0.2 [0.1, 0.5] n 3");
  EXPECT_EQ(estimate_cell({}, 2, 4).text(), "");
}

TEST(ReportTable, HasALinePerPolicyAndNoColumnThatNothingAppliesTo) {
  const ReportTable table =
      report_table(report_run(two_policies(), kOptions).groups.front(), "reuse");

  EXPECT_THAT(table.columns, testing::ElementsAre("policy", "ratio", "n", "KL", "top-1", "gold NLL",
                                                  "F1", "TTFT ratio", "rows / N", "KL - reuse"));
  ASSERT_EQ(table.rows.size(), 3);
  EXPECT_EQ(table.rows[2][0].text(), "epic");
  EXPECT_EQ(table.rows[2][3].text(), "0.5000 [0.5000, 0.5000]");
  EXPECT_EQ(table.rows[2].back().value, "-1.5000");
  EXPECT_EQ(table.rows[1].back().text(), "");
}

TEST(ReportCsv, QuotesWhatWouldEndACell) {
  EXPECT_EQ(csv_line({"a", "b c", ""}), "a,b c,\r\n");
  EXPECT_EQ(csv_line({"a,b", "say \"x\"", "1\n2"}), "\"a,b\",\"say \"\"x\"\"\",\"1\n2\"\r\n");
}

TEST(ReportCsv, HasALinePerMetricAndPoint) {
  const Group group = report_run(two_policies(), kOptions).groups.front();

  EXPECT_THAT(group_csv(group),
              HasSubstr("squad,leadin,epic,0.15,2,kl,nats,0.5,0.5,0.5,2,-1.5,-2.5,-0.5,2\r\n"));
  EXPECT_THAT(group_csv(group), HasSubstr("squad,leadin,full,1,2,kl,nats,0,0,0,2,,,,\r\n"));
  EXPECT_THAT(group_csv(group), Not(HasSubstr("rouge_l")));
  EXPECT_THAT(frontier_csv(group), HasSubstr("squad,leadin,epic,0.15,4,0.5,0.5,0.5,1\r\n"));
}

}  // namespace
}  // namespace tessera
