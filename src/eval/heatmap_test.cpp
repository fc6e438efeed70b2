#include "eval/heatmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

// Six cells and four, of which one is dark and the rest are white.
std::vector<HeatStrip> two_panels() {
  const HeatPanel first = {"shares", {"0", "1", "2"}, {"self", "rest"}, {0, 0, 0, 1, 0, 0}};
  const HeatPanel second = {"layer 1", {"a", "b"}, {"a", "b"}, {0, 0, 0, 0}};
  return {{"squad", {first, second}}};
}

size_t count_of(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(HeatColor, RunsFromWhiteToDarkBlue) {
  EXPECT_EQ(heat_color(0), (Rgb{255, 255, 255}));
  EXPECT_EQ(heat_color(0.25), (Rgb{107, 174, 214}));  // the root is half way
  EXPECT_EQ(heat_color(1), (Rgb{8, 48, 107}));
  for (int step = 1; step <= 20; ++step)
    EXPECT_LT(heat_color(step / 20.0).red, heat_color((step - 1) / 20.0).red) << step;
}

TEST(HeatColor, TakesAnyNumber) {
  EXPECT_EQ(heat_color(-0.5), heat_color(0));
  EXPECT_EQ(heat_color(1.5), heat_color(1));
  EXPECT_EQ(heat_color(std::numeric_limits<double>::infinity()), heat_color(1));
  EXPECT_EQ(heat_color(std::numeric_limits<double>::quiet_NaN()), heat_color(0));
}

TEST(HeatmapSvg, HasARectForEachCell) {
  const std::string svg = heatmap_svg(two_panels());

  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_EQ(count_of(svg, "<rect "), 10);
  EXPECT_EQ(count_of(svg, "fill=\"#08306b\""), 1);
  EXPECT_THAT(svg, HasSubstr("<title>1, rest: 1.0000</title>"));
  EXPECT_THAT(svg, HasSubstr(">squad</text>"));
}

TEST(HeatmapSvg, LabelsCannotBecomeMarkup) {
  std::vector<HeatStrip> strips = two_panels();
  strips[0].title = "a<b> & \"c\"\x01";
  strips[0].panels[0].rows[0] = "<script>";

  const std::string svg = heatmap_svg(strips);

  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt; &amp; &quot;c&quot; <"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_EQ(count_of(svg, "<rect "), 10);
}

TEST(HeatmapSvg, StripsStandBelowEachOther) {
  std::vector<HeatStrip> strips = two_panels();
  const HeatSize one = heatmap_size(strips);
  strips.push_back(strips.front());
  const HeatSize two = heatmap_size(strips);

  EXPECT_EQ(two.width, one.width);
  EXPECT_GT(two.height, one.height + 3 * kHeatCell);
  EXPECT_EQ(count_of(heatmap_svg(strips), "<rect "), 20);
}

TEST(HeatmapPng, HasTheCellsOfTheSvg) {
  const std::vector<HeatStrip> strips = two_panels();
  const HeatSize size = heatmap_size(strips);

  const std::vector<std::byte> bytes = heatmap_png(strips);

  constexpr std::array<int, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  ASSERT_GT(bytes.size(), kSignature.size());
  for (size_t i = 0; i < kSignature.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), kSignature.at(i));
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(image.width, static_cast<png_uint_32>(size.width));
  EXPECT_EQ(image.height, static_cast<png_uint_32>(size.height));
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> rgb(PNG_IMAGE_SIZE(image));
  ASSERT_NE(png_image_finish_read(&image, nullptr, rgb.data(), 0, nullptr), 0);
  int n_dark = 0, n_white = 0;
  for (size_t at = 0; at < rgb.size(); at += 3) {
    const Rgb pixel = {rgb[at], rgb[at + 1], rgb[at + 2]};
    n_dark += pixel == heat_color(1) ? 1 : 0;
    n_white += pixel == heat_color(0) ? 1 : 0;
  }
  EXPECT_EQ(n_dark, kHeatCell * kHeatCell);
  EXPECT_EQ(n_dark + n_white, size.width * size.height);
}

}  // namespace
}  // namespace tessera
