#include "eval/chart_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tessera {
namespace {

constexpr double kMostDecades = 5;
constexpr double kRoom = 0.06;      // of the range, on each side
constexpr double kRounding = 1e-9;  // a tick at the end of the range is within it
constexpr size_t kFewestTicks = 3, kMostTicks = 7;

struct Ends {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool is_empty() const { return low > high; }
};

Ends ends_of(std::span<const double> values, bool is_positive) {
  Ends out;
  for (const double value : values) {
    if (!std::isfinite(value) || (is_positive && value <= 0)) continue;
    out.low = std::min(out.low, value);
    out.high = std::max(out.high, value);
  }
  return out;
}

AxisRange linear_range(std::span<const double> values) {
  const Ends ends = ends_of(values, false);
  if (ends.is_empty()) return {};
  const double span = ends.high - ends.low;
  // One value alone has no span: its own size gives the axis one.
  const double size = std::abs(ends.low) > 0 ? std::abs(ends.low) : 1;
  const double room = span > 0 ? kRoom * span : size / 2;
  return {Scale::kLinear, ends.low - room, ends.high + room, false};
}

AxisRange log_range(std::span<const double> values) {
  const Ends ends = ends_of(values, true);
  const bool has_none_positive = std::ranges::any_of(values, [](double v) { return v <= 0; });
  if (ends.is_empty()) return {Scale::kLog, 0.1, 1, has_none_positive};
  const double top = std::log10(ends.high);
  double bottom = std::log10(ends.low);
  const bool has_floor = has_none_positive || top - bottom > kMostDecades;
  // A power of ten strictly below the smallest value: nothing that is positive seems to be 0.
  if (has_floor)
    bottom = std::max(std::ceil(bottom - kRounding) - 1, std::floor(top - kMostDecades));
  const double room = std::max(kRoom * (top - bottom), 0.05);
  return {Scale::kLog, std::pow(10, has_floor ? bottom : bottom - room), std::pow(10, top + room),
          has_floor};
}

// Ascending multiples of powers of ten within the range.
std::vector<double> multiples(double low, double high, std::span<const double> factors) {
  std::vector<double> out;
  const auto last = static_cast<int>(std::floor(std::log10(high)));
  for (auto power = static_cast<int>(std::floor(std::log10(low))); power <= last; ++power) {
    for (const double factor : factors) {
      const double value = factor * std::pow(10, power);
      if (value >= low * (1 - kRounding) && value <= high * (1 + kRounding)) out.push_back(value);
    }
  }
  return out;
}

}  // namespace

double AxisRange::place_of(double value) const {
  if (scale == Scale::kLinear) {
    const double place = (value - low) / (high - low);
    return std::isnan(place) ? 0 : std::clamp(place, 0.0, 1.0);
  }
  if (!(value > low)) return 0;
  return std::min(std::log(value / low) / std::log(high / low), 1.0);
}

AxisRange range_over(Scale scale, std::span<const double> values) {
  return scale == Scale::kLinear ? linear_range(values) : log_range(values);
}

std::vector<double> linear_ticks(double low, double high, size_t n_most) {
  CHECK(low < high && n_most >= 2);
  double step = std::pow(10, std::floor(std::log10(high - low)) - 1);
  const auto first = [&] { return std::ceil(low / step - kRounding); };
  const auto last = [&] { return std::floor(high / step + kRounding); };
  // From 1 to 2 to 5 to 10 times the power of ten.
  for (size_t i = 0; last() - first() + 1 > static_cast<double>(n_most); ++i)
    step *= i % 3 == 1 ? 2.5 : 2;
  std::vector<double> out;
  for (double n = first(); n <= last(); ++n) out.push_back(n * step + 0.0);  // -0 + 0 is 0
  return out;
}

std::vector<double> log_ticks(double low, double high) {
  CHECK(low > 0 && low < high);
  static constexpr std::array kFactors = {1.0, 2.0, 5.0, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0};
  const std::span<const double> all = kFactors;
  for (const std::span<const double> factors : {all.first(1), all.first(3), all.subspan(3)}) {
    std::vector<double> out = multiples(low, high, factors);
    if (out.size() >= kFewestTicks) return out;
  }
  return linear_ticks(low, high, kMostTicks);
}

std::string tick_text(double value) {
  std::string text = fmt::format("{:.4g}", value);
  // "1e-05" is how C writes it.
  if (const size_t at = text.find('e'); at != std::string::npos && text[at + 2] == '0')
    text.erase(at + 2, 1);
  if (const size_t at = text.find("e+"); at != std::string::npos) text.erase(at + 1, 1);
  return text;
}

}  // namespace tessera
