#pragma once
// Figures of numbers: panels of points, lines or bars with intervals, as one SVG that needs nothing
// else: no script, no style sheet, no identifiers that could clash with another figure's. Labels
// are UTF-8 and may hold anything. Pure; thread-safe.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "eval/chart_scale.h"

namespace tessera {

struct ChartAxis {
  std::string label;  // with the unit
  Scale scale = Scale::kLinear;
  std::optional<double> mark = {};  // a value that gets a broken line across the panel
};

struct ChartInterval {
  double low = 0;
  double high = 0;
};

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::optional<ChartInterval> interval = {};  // of y
  std::string label = {};                      // beside the point; may be empty
  bool is_filled = true;
};

struct ChartSeries {
  std::string name;        // in tooltips
  size_t style = 0;        // colour and shape; equal numbers look alike in every figure
  bool is_joined = false;  // by a line, in the order of the points
  std::vector<ChartPoint> points;
  double shift = 0;  // pixels to the right, so that series with equal x can be told apart
};

struct ChartBar {
  std::string label;
  size_t style = 0;
  double value = 0;  // from 0 on
  std::optional<ChartInterval> interval = {};
};

// Points over two axes, or, where there are bars, those from top to bottom along `x` alone, which
// is then linear.
struct ChartPanel {
  std::string title;
  std::string subtitle;  // such as what is better
  ChartAxis x, y;
  std::vector<ChartSeries> series;
  std::vector<ChartBar> bars;
};

inline constexpr int kPanelWidth = 640;  // pixels

// Panels in rows of `n_columns` (positive), from the left.
std::string chart_svg(const std::vector<ChartPanel>& panels, size_t n_columns = 1);

}  // namespace tessera
