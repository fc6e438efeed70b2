#include "eval/heatmap.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "eval/markup.h"

namespace tessera {
namespace {

// Pixels.
constexpr int32_t kMargin = 12;
constexpr int32_t kStripTitle = 24;
constexpr int32_t kRowLabels = 76;      // left of a panel's cells
constexpr int32_t kColumnLabels = 112;  // above them, the panel's title included
constexpr int32_t kPanelGap = 56;       // column labels lean over to the right

struct PlacedPanel {
  const HeatPanel* panel = nullptr;
  int32_t x = 0, y = 0;  // of the first cell
};

struct Layout {
  std::vector<PlacedPanel> panels;
  std::vector<int32_t> strip_tops;
  HeatSize size;
};

Layout layout_of(std::span<const HeatStrip> strips) {
  Layout out;
  int32_t top = kMargin;
  for (const HeatStrip& strip : strips) {
    out.strip_tops.push_back(top);
    const int32_t y = top + kStripTitle + kColumnLabels;
    int32_t left = kMargin;
    size_t n_rows = 0;
    for (const HeatPanel& panel : strip.panels) {
      CHECK(panel.values.size() == panel.rows.size() * panel.columns.size());
      out.panels.push_back({&panel, left + kRowLabels, y});
      left += kRowLabels + static_cast<int32_t>(panel.columns.size()) * kHeatCell + kPanelGap;
      n_rows = std::max(n_rows, panel.rows.size());
    }
    out.size.width = std::max(out.size.width, left + kMargin);
    top = y + static_cast<int32_t>(n_rows) * kHeatCell + 2 * kMargin;
  }
  out.size.height = top;
  return out;
}

// `draw(panel, row, column, x, y)` for each cell.
template <typename Draw>
void for_each_cell(const PlacedPanel& placed, Draw draw) {
  const HeatPanel& panel = *placed.panel;
  for (size_t row = 0; row < panel.rows.size(); ++row) {
    for (size_t column = 0; column < panel.columns.size(); ++column) {
      draw(row, column, placed.x + static_cast<int32_t>(column) * kHeatCell,
           placed.y + static_cast<int32_t>(row) * kHeatCell);
    }
  }
}

void add_text(std::string& svg, int32_t x, int32_t y, std::string_view attributes,
              std::string_view text) {
  fmt::format_to(std::back_inserter(svg), "<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, attributes,
                 escape_markup(text));
}

void add_labels(std::string& svg, const PlacedPanel& placed) {
  const HeatPanel& panel = *placed.panel;
  add_text(svg, placed.x, placed.y - kColumnLabels + 12, " font-weight=\"bold\"", panel.title);
  for (size_t row = 0; row < panel.rows.size(); ++row) {
    add_text(svg, placed.x - 4, placed.y + static_cast<int32_t>(row) * kHeatCell + kHeatCell - 4,
             " text-anchor=\"end\"", panel.rows[row]);
  }
  for (size_t column = 0; column < panel.columns.size(); ++column) {
    const int32_t x = placed.x + static_cast<int32_t>(column) * kHeatCell + kHeatCell / 2;
    const int32_t y = placed.y - 4;
    add_text(svg, x, y, fmt::format(" transform=\"rotate(-60 {} {})\"", x, y),
             panel.columns[column]);
  }
}

void add_cells(std::string& svg, const PlacedPanel& placed) {
  const HeatPanel& panel = *placed.panel;
  for_each_cell(placed, [&](size_t row, size_t column, int32_t x, int32_t y) {
    const double value = panel.values[row * panel.columns.size() + column];
    const Rgb color = heat_color(value);
    fmt::format_to(std::back_inserter(svg),
                   "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
                   "fill=\"#{:02x}{:02x}{:02x}\"><title>{}, {}: {:.4f}</title></rect>\n",
                   x, y, kHeatCell, kHeatCell, color.red, color.green, color.blue,
                   escape_markup(panel.rows[row]), escape_markup(panel.columns[column]), value);
  });
}

struct Pixels {
  HeatSize size;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

void fill_cell(Pixels& pixels, int32_t x, int32_t y, Rgb color) {
  for (int32_t row = y; row < y + kHeatCell; ++row) {
    const auto first =
        static_cast<size_t>(row) * static_cast<size_t>(pixels.size.width) + static_cast<size_t>(x);
    for (size_t at = 3 * first; at < 3 * (first + kHeatCell); at += 3) {
      pixels.rgb[at] = color.red;
      pixels.rgb[at + 1] = color.green;
      pixels.rgb[at + 2] = color.blue;
    }
  }
}

}  // namespace

Rgb heat_color(double value) {
  struct Stop {
    double at, red, green, blue;
  };
  // ColorBrewer's "Blues", its two ends and one between them.
  static constexpr Stop kStops[] = {{0, 255, 255, 255}, {0.5, 107, 174, 214}, {1, 8, 48, 107}};
  const double depth = std::isnan(value) ? 0 : std::sqrt(std::clamp(value, 0.0, 1.0));
  const Stop& from = depth < kStops[1].at ? kStops[0] : kStops[1];
  const Stop& to = depth < kStops[1].at ? kStops[1] : kStops[2];
  const double share = (depth - from.at) / (to.at - from.at);
  const auto mix = [share](double a, double b) {
    return static_cast<uint8_t>(std::lround(a + share * (b - a)));
  };
  return {mix(from.red, to.red), mix(from.green, to.green), mix(from.blue, to.blue)};
}

HeatSize heatmap_size(std::span<const HeatStrip> strips) { return layout_of(strips).size; }

std::string heatmap_svg(std::span<const HeatStrip> strips) {
  const Layout layout = layout_of(strips);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" style=\"background:#fff\" font-family=\"sans-serif\" "
      "font-size=\"10\">\n",
      layout.size.width, layout.size.height);
  for (size_t i = 0; i < strips.size(); ++i)
    add_text(svg, kMargin, layout.strip_tops[i] + 14, " font-size=\"14\"", strips[i].title);
  for (const PlacedPanel& placed : layout.panels) {
    add_labels(svg, placed);
    add_cells(svg, placed);
  }
  svg += "</svg>\n";
  return svg;
}

std::vector<std::byte> heatmap_png(std::span<const HeatStrip> strips) {
  CHECK(!strips.empty());
  const Layout layout = layout_of(strips);
  Pixels pixels = {layout.size, {}};
  pixels.rgb.assign(
      3 * static_cast<size_t>(layout.size.width) * static_cast<size_t>(layout.size.height), 255);
  for (const PlacedPanel& placed : layout.panels) {
    for_each_cell(placed, [&](size_t row, size_t column, int32_t x, int32_t y) {
      const size_t width = placed.panel->columns.size();
      fill_cell(pixels, x, y, heat_color(placed.panel->values[row * width + column]));
    });
  }

  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(layout.size.width);
  image.height = static_cast<png_uint_32>(layout.size.height);
  image.format = PNG_FORMAT_RGB;
  // An upper bound, so that the image is compressed once.
  png_alloc_size_t n_bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> out(n_bytes);
  const int is_written =
      png_image_write_to_memory(&image, out.data(), &n_bytes, 0, pixels.rgb.data(), 0, nullptr);
  if (is_written == 0) {
    throw Error(ErrorCode::kIo,
                fmt::format("the heatmap cannot be made into a PNG - {} - free some memory and "
                            "try again",
                            image.message));
  }
  out.resize(n_bytes);
  return out;
}

}  // namespace tessera
