#include "eval/report_charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/report_testing.h"

namespace tessera {
namespace {

using report_testing::full_row;
using report_testing::row;
using testing::ElementsAre;
using testing::HasSubstr;

Group group_of(const std::vector<Measurement>& rows) {
  return summarize(rows, {.baseline = "reuse", .n_resamples = 100, .seed = 0}).front();
}

// reuse is fastest, epic closest; random is as far as reuse and slower, cacheblend slower than full
// prefill.
Group five_policies() {
  return group_of({full_row("a"), row("a", "reuse", 0.15, 1, 8), row("a", "epic", 0.05, 0.5, 6),
                   row("a", "epic", 0.5, 0.1, 2), row("a", "random", 0.15, 1, 7),
                   row("a", "cacheblend", 0.15, 0.2, 0.9)});
}

std::vector<std::string> names(const std::vector<Figure>& figures) {
  std::vector<std::string> out;
  for (const Figure& figure : figures) out.push_back(figure.name);
  return out;
}

TEST(ReportFrontier, HasThePointsThatNothingElseDominates) {
  const std::vector<FrontierPoint> points = frontier_points(five_policies());

  std::vector<std::string> on, off;
  for (const FrontierPoint& p : points) (p.is_on ? on : off).push_back(p.policy);
  EXPECT_THAT(on, ElementsAre("full", "reuse", "epic", "epic"));
  EXPECT_THAT(off, ElementsAre("cacheblend", "random"));
  EXPECT_DOUBLE_EQ(points[1].ttft_ratio, 8);
  EXPECT_EQ(frontier_json(points)[0]["on_frontier"], true);
}

TEST(ReportFrontier, SentenceNamesTheRatioWhereItIsRead) {
  EXPECT_THAT(frontier_sentence(frontier_points(five_policies())),
              HasSubstr("On the frontier: full, reuse, epic 0.05, epic 0.5."));
  EXPECT_THAT(
      frontier_sentence(frontier_points(group_of({full_row("a"), row("a", "epic", 0.15, 1, 0.5)}))),
      HasSubstr("frontier: full. "));
  EXPECT_THAT(frontier_sentence(frontier_points(group_of({row("a", "random", 0.15, 1, 2)}))),
              HasSubstr("full, random 0.15 (a control)."));
}

TEST(ReportFrontier, WhatEqualsFullPrefillAndIsSoonerLeavesItBehind) {
  const std::vector<FrontierPoint> points =
      frontier_points(group_of({full_row("a"), row("a", "prefix", 0.15, 0, 1.5)}));

  EXPECT_THAT(frontier_sentence(points), HasSubstr("frontier: prefix. "));
  EXPECT_FALSE(points[0].is_on);
}

TEST(ReportFrontier, EqualPointsAreBothOnIt) {
  const std::vector<FrontierPoint> points = frontier_points(
      group_of({full_row("a"), row("a", "epic", 0.15, 0.5, 2), row("a", "reuse", 0.15, 0.5, 2)}));

  ASSERT_EQ(points.size(), 3);
  EXPECT_TRUE(points[1].is_on && points[2].is_on);
}

TEST(ReportFigures, AreThoseThatHaveSomethingToShow) {
  EXPECT_THAT(names(report_figures(five_policies())),
              ElementsAre("frontier", "kl-by-ratio", "ttft", "rows"));
  EXPECT_THAT(names(report_figures(group_of({full_row("a"), row("a", "epic", 0.15, 1)}))),
              ElementsAre("frontier", "ttft", "rows"));
  EXPECT_THAT(names(report_figures(group_of({full_row("a")}))), ElementsAre());
}

TEST(ReportFigures, FillTheMarksOfTheFrontier) {
  const ChartPanel panel = report_figures(five_policies())[0].panel;

  ASSERT_EQ(panel.series.size(), 5);
  EXPECT_EQ(panel.series[0].points[0].label, "full");
  EXPECT_EQ(panel.series[0].points[0].y, 0);
  EXPECT_EQ(panel.series[2].name, "epic");
  ASSERT_EQ(panel.series[2].points.size(), 2);
  EXPECT_EQ(panel.series[2].points[0].label, "epic 0.05");
  EXPECT_EQ(panel.series[2].points[1].label, "0.5");
  EXPECT_TRUE(panel.series[2].points[0].is_filled);
  EXPECT_FALSE(panel.series[3].points[0].is_filled) << "cacheblend";
}

TEST(ReportFigures, BarsAreOfEveryLine) {
  const std::vector<Figure> figures = report_figures(five_policies());

  ASSERT_EQ(figures[2].panel.bars.size(), 6);
  EXPECT_EQ(figures[2].panel.bars[0].label, "full");
  EXPECT_EQ(figures[2].panel.bars[0].value, 40);
  EXPECT_EQ(figures[2].panel.bars[1].label, "reuse 0.15");
  EXPECT_EQ(figures[2].panel.bars[1].value, 5);
  EXPECT_EQ(figures[3].panel.bars[1].value, 0.5);
}

}  // namespace
}  // namespace tessera
