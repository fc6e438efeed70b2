#pragma once
// Grids of shares as colours: SVG with labels, and PNG with the same cells at the same places and
// no text. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

// Labels are UTF-8.
struct HeatPanel {
  std::string title;
  std::vector<std::string> rows, columns;  // labels
  std::vector<double> values;              // [rows, columns], 0..1
};

// Panels side by side under one title. Strips stand below each other.
struct HeatStrip {
  std::string title;
  std::vector<HeatPanel> panels;
};

struct Rgb {
  uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Rgb&) const = default;
};

inline constexpr int32_t kHeatCell = 14;  // pixels, both ways

// White at 0 to dark blue at 1, by the square root, so that small shares can be told apart. What
// lies outside counts as the nearer end, and what is no number as 0.
Rgb heat_color(double value);

struct HeatSize {
  int32_t width = 0, height = 0;  // pixels
};
HeatSize heatmap_size(std::span<const HeatStrip> strips);

// One <rect> a cell, with its value as a tooltip.
std::string heatmap_svg(std::span<const HeatStrip> strips);

// The bytes of a PNG file, 8-bit RGB. Throws Error(kIo) without memory. Needs a strip.
std::vector<std::byte> heatmap_png(std::span<const HeatStrip> strips);

}  // namespace tessera
