#include "eval/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "eval/label_places.h"
#include "eval/markup.h"

namespace tessera {
namespace {

// Pixels.
constexpr double kPlotHeight = 340;
constexpr double kTop = 58, kBottom = 56, kRight = 24, kLeft = 84;
constexpr double kBarLabels = 150;  // left of bars
constexpr double kBarStep = 24, kBarThickness = 15;
constexpr double kMarkRadius = 5.5;
constexpr double kFontSize = 13, kLineHeight = 15;
constexpr double kCharacterWidth = 0.6 * kFontSize;  // a wide guess: an estimate from above
constexpr size_t kLinearTicks = 7;

// Okabe and Ito (2008), tellable apart by the colour-blind; yellow is left out, which white hides.
constexpr std::array<std::string_view, 7> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                     "#56B4E9", "#E69F00", "#000000"};
// Regular polygons and stars: corners, the first one's turn, and how far in every other corner
// lies.
struct Shape {
  int n_corners;  // 0: a circle
  double turn;    // of a circle
  double inset = 1;
};
constexpr std::array<Shape, 8> kShapes = {
    {{0, 0}, {4, 0.125}, {3, 0}, {4, 0}, {3, 0.5}, {5, 0}, {10, 0, 0.45}, {6, 0}}};

std::string_view color_of(size_t style) { return kColors.at(style % kColors.size()); }

struct Place {
  double x = 0, y = 0;
};

class Svg {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }
  void line(Place from, Place to, std::string_view attributes) {
    add("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", from.x, from.y,
        to.x, to.y, attributes);
  }
  void text(Place at, std::string_view attributes, std::string_view words) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", at.x, at.y, attributes,
        escape_markup(words));
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

constexpr std::string_view kGridLine = "stroke=\"#e3e3e3\"";
constexpr std::string_view kAxisLine = "stroke=\"#444\"";
constexpr std::string_view kWhisker = "stroke=\"#000\" stroke-width=\"1.2\"";
constexpr std::string_view kMarkLine = "stroke=\"#666\" stroke-dasharray=\"5 4\"";
constexpr std::string_view kMiddle = "text-anchor=\"middle\"";
constexpr std::string_view kEnd = "text-anchor=\"end\"";

size_t n_characters(std::string_view text) {
  size_t n = 0;
  for (; !text.empty(); ++n) text.remove_prefix(next_utf8(text).length);
  return n;
}

double width_of(std::string_view text) {
  return kCharacterWidth * static_cast<double>(n_characters(text));
}

std::vector<double> ticks_of(const AxisRange& range) {
  return range.scale == Scale::kLog ? log_ticks(range.low, range.high)
                                    : linear_ticks(range.low, range.high, kLinearTicks);
}

// What stands at the floor is there or anywhere below it.
std::string tick_label(const AxisRange& range, double tick) {
  const bool is_floor = range.has_floor && range.place_of(tick) < 1e-6;
  return (is_floor ? "\xE2\x89\xA4 " : "") + tick_text(tick);
}

std::string interval_text(const std::optional<ChartInterval>& interval) {
  if (!interval) return "";
  return fmt::format(" [{}, {}]", tick_text(interval->low), tick_text(interval->high));
}

// The rectangle that points and bars are drawn in.
struct Frame {
  double left = 0, top = 0, width = 0, height = 0;
  AxisRange x, y;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
  double x_of(double value) const { return left + width * x.place_of(value); }
  double y_of(double value) const { return bottom() - height * y.place_of(value); }
};

bool has_points(const ChartPanel& panel) { return panel.bars.empty(); }

double plot_height(const ChartPanel& panel) {
  return has_points(panel) ? kPlotHeight : kBarStep * static_cast<double>(panel.bars.size());
}

double panel_height(const ChartPanel& panel) { return kTop + plot_height(panel) + kBottom; }

Frame point_frame(const ChartPanel& panel, Place origin) {
  std::vector<double> xs, ys;
  for (const ChartSeries& series : panel.series) {
    for (const ChartPoint& point : series.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
      if (point.interval) ys.insert(ys.end(), {point.interval->low, point.interval->high});
    }
  }
  if (panel.x.mark) xs.push_back(*panel.x.mark);
  if (panel.y.mark) ys.push_back(*panel.y.mark);
  return {origin.x + kLeft,
          origin.y + kTop,
          kPanelWidth - kLeft - kRight,
          kPlotHeight,
          range_over(panel.x.scale, xs),
          range_over(panel.y.scale, ys)};
}

Frame bar_frame(const ChartPanel& panel, Place origin) {
  std::vector<double> values = {0};
  for (const ChartBar& bar : panel.bars) {
    values.push_back(bar.value);
    if (bar.interval) values.insert(values.end(), {bar.interval->low, bar.interval->high});
  }
  if (panel.x.mark) values.push_back(*panel.x.mark);
  Frame out = {origin.x + kBarLabels,
               origin.y + kTop,
               kPanelWidth - kBarLabels - kRight,
               plot_height(panel),
               range_over(Scale::kLinear, values),
               {}};
  // Where nothing is negative, bars stand on the axis itself.
  if (std::ranges::none_of(values, [](double v) { return v < 0; })) out.x.low = 0;
  return out;
}

void draw_titles(Svg& svg, const ChartPanel& panel, const Frame& frame, Place origin) {
  svg.text({origin.x + 12, origin.y + 22}, "font-size=\"16\" font-weight=\"bold\"", panel.title);
  svg.text({origin.x + 12, origin.y + 42}, "", panel.subtitle);
  svg.text({frame.left + frame.width / 2, frame.bottom() + 42}, kMiddle, panel.x.label);
}

void draw_x_axis(Svg& svg, const ChartAxis& axis, const Frame& frame) {
  for (const double tick : ticks_of(frame.x)) {
    const double x = frame.x_of(tick);
    svg.line({x, frame.top}, {x, frame.bottom()}, kGridLine);
    svg.text({x, frame.bottom() + 19}, kMiddle, tick_label(frame.x, tick));
  }
  if (axis.mark) {
    const double x = frame.x_of(*axis.mark);
    svg.line({x, frame.top}, {x, frame.bottom()}, kMarkLine);
  }
  svg.line({frame.left, frame.bottom()}, {frame.right(), frame.bottom()}, kAxisLine);
}

void draw_y_axis(Svg& svg, const ChartAxis& axis, const Frame& frame) {
  for (const double tick : ticks_of(frame.y)) {
    const double y = frame.y_of(tick);
    svg.line({frame.left, y}, {frame.right(), y}, kGridLine);
    svg.text({frame.left - 7, y + 4.5}, kEnd, tick_label(frame.y, tick));
  }
  if (axis.mark) {
    const double y = frame.y_of(*axis.mark);
    svg.line({frame.left, y}, {frame.right(), y}, kMarkLine);
  }
  svg.line({frame.left, frame.top}, {frame.left, frame.bottom()}, kAxisLine);
  const Place at = {frame.left - kLeft + 17, frame.top + frame.height / 2};
  svg.text(at, fmt::format("{} transform=\"rotate(-90 {:.1f} {:.1f})\"", kMiddle, at.x, at.y),
           axis.label);
}

// Its hollow form is white inside, so that lines end at its edge.
void draw_mark(Svg& svg, Place at, size_t style, bool is_filled, const std::string& tooltip) {
  const std::string_view color = color_of(style);
  const std::string paint = fmt::format("fill=\"{}\" stroke=\"{}\" stroke-width=\"1.8\"",
                                        is_filled ? color : "#fff", color);
  const Shape& shape = kShapes.at(style % kShapes.size());
  const std::string title = fmt::format("<title>{}</title>", escape_markup(tooltip));
  if (shape.n_corners == 0) {
    svg.add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" {}>{}</circle>\n", at.x, at.y,
            kMarkRadius - 0.5, paint, title);
    return;
  }
  std::string points;
  for (int i = 0; i < shape.n_corners; ++i) {
    const double angle = 2 * std::numbers::pi * (shape.turn + 1.0 * i / shape.n_corners);
    const double radius = (kMarkRadius + 1) * (i % 2 == 1 ? shape.inset : 1);
    points += fmt::format("{:.1f},{:.1f} ", at.x + radius * std::sin(angle),
                          at.y - radius * std::cos(angle));
  }
  svg.add("<polygon points=\"{}\" {}>{}</polygon>\n", points, paint, title);
}

struct PlacedPoint {
  Place at;
  const ChartSeries* series = nullptr;
  const ChartPoint* point = nullptr;
};

// Lines and intervals come below all marks.
void draw_lines(Svg& svg, const std::vector<PlacedPoint>& points, const Frame& frame) {
  for (size_t i = 0; i < points.size(); ++i) {
    const PlacedPoint& p = points[i];
    const std::string_view color = color_of(p.series->style);
    if (i > 0 && points[i - 1].series == p.series && p.series->is_joined) {
      svg.line(points[i - 1].at, p.at,
               fmt::format("stroke=\"{}\" stroke-width=\"1.6\" stroke-opacity=\"0.75\"", color));
    }
    if (!p.point->interval) continue;
    const std::string paint = fmt::format("stroke=\"{}\" stroke-width=\"1.2\"", color);
    const double low = frame.y_of(p.point->interval->low);
    const double high = frame.y_of(p.point->interval->high);
    svg.line({p.at.x, low}, {p.at.x, high}, paint);
    for (const double y : {low, high}) svg.line({p.at.x - 3, y}, {p.at.x + 3, y}, paint);
  }
}

// Marks, and the whiskers of intervals, which text would be hard to read on.
std::vector<Box> obstacles_of(const std::vector<PlacedPoint>& points, const Frame& frame) {
  std::vector<Box> out;
  for (const PlacedPoint& p : points) {
    const double reach = kMarkRadius + 1;
    out.push_back({p.at.x - reach, p.at.y - reach, p.at.x + reach, p.at.y + reach});
    if (!p.point->interval) continue;
    out.push_back({p.at.x - 1.5, frame.y_of(p.point->interval->high), p.at.x + 1.5,
                   frame.y_of(p.point->interval->low)});
  }
  return out;
}

void draw_labels(Svg& svg, const std::vector<PlacedPoint>& points, const Frame& frame) {
  std::vector<PlacedPoint> named;
  std::vector<Label> labels;
  for (const PlacedPoint& p : points) {
    if (p.point->label.empty()) continue;
    named.push_back(p);
    labels.push_back({p.at.x, p.at.y, width_of(p.point->label)});
  }
  const Box area = {frame.left + 2, frame.top, frame.right() + kRight, frame.bottom() - 2};
  const std::vector<Box> boxes =
      place_labels(labels, kLineHeight, obstacles_of(points, frame), area);
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Box& box = boxes[i];
    const Place at = named[i].at;
    // The point of the box that is nearest to the mark.
    const Place near = {std::clamp(at.x, box.left, box.right),
                        std::clamp(at.y, box.top, box.bottom)};
    if (std::hypot(near.x - at.x, near.y - at.y) > 2 * kMarkRadius + 6)
      svg.line(at, near,
               fmt::format("stroke=\"{}\" stroke-width=\"0.8\"", color_of(named[i].series->style)));
    // White around the letters keeps them apart from lines that they cross.
    svg.text({(box.left + box.right) / 2, box.top + 11.5},
             "text-anchor=\"middle\" stroke=\"#fff\" stroke-width=\"3\" stroke-linejoin=\"round\" "
             "paint-order=\"stroke\"",
             named[i].point->label);
  }
}

void draw_points(Svg& svg, const ChartPanel& panel, Place origin) {
  const Frame frame = point_frame(panel, origin);
  draw_titles(svg, panel, frame, origin);
  draw_x_axis(svg, panel.x, frame);
  draw_y_axis(svg, panel.y, frame);
  std::vector<PlacedPoint> points;
  for (const ChartSeries& series : panel.series) {
    for (const ChartPoint& point : series.points)
      points.push_back(
          {{frame.x_of(point.x) + series.shift, frame.y_of(point.y)}, &series, &point});
  }
  draw_lines(svg, points, frame);
  for (const PlacedPoint& p : points) {
    draw_mark(
        svg, p.at, p.series->style, p.point->is_filled,
        fmt::format("{} {}: x {}, y {}{}", p.series->name, p.point->label, tick_text(p.point->x),
                    tick_text(p.point->y), interval_text(p.point->interval)));
  }
  draw_labels(svg, points, frame);
}

void draw_bars(Svg& svg, const ChartPanel& panel, Place origin) {
  const Frame frame = bar_frame(panel, origin);
  draw_titles(svg, panel, frame, origin);
  draw_x_axis(svg, panel.x, frame);
  const double zero = frame.x_of(0);
  for (size_t i = 0; i < panel.bars.size(); ++i) {
    const ChartBar& bar = panel.bars[i];
    const double middle = frame.top + kBarStep * (static_cast<double>(i) + 0.5);
    const double end = frame.x_of(bar.value);
    svg.add(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" "
        "fill-opacity=\"0.7\"><title>{}: {}{}</title></rect>\n",
        std::min(zero, end), middle - kBarThickness / 2, std::abs(end - zero), kBarThickness,
        color_of(bar.style), escape_markup(bar.label), tick_text(bar.value),
        interval_text(bar.interval));
    svg.text({frame.left - 7, middle + 4.5}, kEnd, bar.label);
    if (!bar.interval) continue;
    const double low = frame.x_of(bar.interval->low), high = frame.x_of(bar.interval->high);
    svg.line({low, middle}, {high, middle}, kWhisker);
    for (const double x : {low, high}) svg.line({x, middle - 4}, {x, middle + 4}, kWhisker);
  }
  svg.line({zero, frame.top}, {zero, frame.bottom()}, kAxisLine);
}

}  // namespace

std::string chart_svg(const std::vector<ChartPanel>& panels, size_t n_columns) {
  CHECK(n_columns > 0);
  Svg body;
  double top = 0, height = 0;  // of the row
  for (size_t i = 0; i < panels.size(); ++i) {
    const size_t column = i % n_columns;
    if (column == 0) top += std::exchange(height, 0);
    const Place origin = {kPanelWidth * static_cast<double>(column), top};
    if (has_points(panels[i])) {
      draw_points(body, panels[i], origin);
    } else {
      draw_bars(body, panels[i], origin);
    }
    height = std::max(height, panel_height(panels[i]));
  }
  top += height;
  const auto width =
      static_cast<size_t>(kPanelWidth) * std::clamp(panels.size(), size_t{1}, n_columns);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0} {1:.0f}\" role=\"img\" font-family=\"DejaVu Sans, Arial, sans-serif\" "
      "font-size=\"{2:.0f}\" fill=\"#1a1a1a\">\n<title>{3}</title>\n"
      "<rect width=\"{0}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n{4}</svg>\n",
      width, top, kFontSize, escape_markup(panels.empty() ? "" : panels.front().title), body.str());
}

}  // namespace tessera
