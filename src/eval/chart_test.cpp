#include "eval/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t count_of(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

ChartPanel points_panel() {
  ChartPanel out;
  out.title = "distance";
  out.subtitle = "lower is better";
  out.x = {.label = "ratio, share", .scale = Scale::kLinear};
  out.y = {.label = "KL, nats", .scale = Scale::kLog};
  ChartSeries first = {.name = "epic", .style = 0, .is_joined = true, .points = {}};
  first.points = {{.x = 0, .y = 0.1, .interval = ChartInterval{0.05, 0.2}, .label = "epic 0"},
                  {.x = 1, .y = 0.01, .label = "1", .is_filled = false}};
  ChartSeries second = {.name = "reuse", .style = 1, .is_joined = true, .points = {}};
  second.points = {{.x = 0.5, .y = 1, .label = "reuse"}};
  out.series = {first, second};
  return out;
}

ChartPanel bars_panel() {
  ChartPanel out;
  out.title = "time";
  out.x = {.label = "TTFT, ms"};
  out.bars = {{.label = "full", .style = 0, .value = 40},
              {.label = "epic", .style = 1, .value = 10, .interval = ChartInterval{8, 12}}};
  return out;
}

TEST(Chart, ShowsAMarkForEachPointAndALineBetweenThoseThatAreJoined) {
  const std::string svg = chart_svg({points_panel()});

  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_EQ(count_of(svg, "<circle "), 2);   // the first style
  EXPECT_EQ(count_of(svg, "<polygon "), 1);  // the second
  EXPECT_EQ(count_of(svg, "stroke-opacity"), 1);
  EXPECT_EQ(count_of(svg, "fill=\"#fff\" stroke=\"#0072B2\""), 1) << "the hollow one";
  EXPECT_THAT(svg, HasSubstr("<title>epic epic 0: x 0, y 0.1 [0.05, 0.2]</title>"));
  for (const char* text : {">distance<", ">lower is better<", ">ratio, share<", ">KL, nats<",
                           ">epic 0<", ">reuse<", ">0.01<", ">0.1<", ">1<"})
    EXPECT_THAT(svg, HasSubstr(text));
}

TEST(Chart, PointsStandWhereTheirValuesAre) {
  ChartPanel panel = points_panel();
  panel.series = {{.name = "line", .points = {{.x = 0, .y = 1}, {.x = 10, .y = 100}}}};

  const std::string svg = chart_svg({panel});

  // The frame is 84..616 by 58..398 with 6% of the data's reach as room: 28.5 and 18.2 pixels.
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"112.5\" cy=\"379.8\""));
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"587.5\" cy=\"76.2\""));
}

TEST(Chart, WhatALogScaleCannotShowStandsAtAFloorThatIsNamed) {
  ChartPanel panel = points_panel();
  EXPECT_THAT(chart_svg({panel}), Not(HasSubstr("\xE2\x89\xA4")));
  panel.series[1].points[0].y = 0;

  const std::string svg = chart_svg({panel});

  EXPECT_THAT(svg, HasSubstr(">\xE2\x89\xA4 0.001<"));
}

TEST(Chart, BarsBeginAtZeroAndHaveWhiskers) {
  const std::string svg = chart_svg({bars_panel()});

  // The axis is 466 pixels for 0..42.4: 40 plus 6%.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"150.0\" y=\"62.5\" width=\"439.6\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"150.0\" y=\"86.5\" width=\"109.9\""));
  EXPECT_THAT(svg, HasSubstr("<title>epic: 10 [8, 12]</title>"));
  EXPECT_THAT(svg, HasSubstr(">TTFT, ms<"));
}

TEST(Chart, PanelsStandSideBySideThenBelow) {
  const std::string one = chart_svg({points_panel()});
  const std::string three = chart_svg({points_panel(), bars_panel(), points_panel()}, 2);

  EXPECT_THAT(one, HasSubstr("viewBox=\"0 0 640 454\""));
  EXPECT_THAT(three, HasSubstr("viewBox=\"0 0 1280 908\""));
  EXPECT_EQ(count_of(three, ">distance<"), 3) << "two panels and the title of the figure";
  EXPECT_THAT(chart_svg({}), HasSubstr("</svg>"));
}

TEST(Chart, LabelsCannotBecomeMarkup) {
  ChartPanel points = points_panel(), bars = bars_panel();
  const std::string bad = "<script>\"&\xFF";
  points.title = points.subtitle = points.x.label = points.y.label = bad;
  points.series[0].name = points.series[0].points[0].label = bars.bars[0].label = bad;

  const std::string svg = chart_svg({points, bars});

  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&quot;&amp;\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace tessera
