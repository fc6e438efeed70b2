#pragma once
// From values to places along an axis, and the values that an axis names. Pure; thread-safe.
#include <span>
#include <string>
#include <vector>

namespace tessera {

enum class Scale { kLinear, kLog };

// What an axis reaches over. On a log scale a value at or below `low` stands at `low`, so that 0,
// which has no place there, has one: `has_floor` says that some value does, and the axis then has
// to name it.
struct AxisRange {
  Scale scale = Scale::kLinear;
  double low = 0;
  double high = 1;
  bool has_floor = false;

  // 0 at `low`, 1 at `high`; what lies outside, and what is no number, stands at the nearer end.
  double place_of(double value) const;
};

// A range over `values`, of which those that are not finite do not count, with some room on both
// sides. A log scale reaches over 5 decades at most, down from the highest value; where a value
// lies below that or is not positive, `low` is a power of ten.
AxisRange range_over(Scale scale, std::span<const double> values);

// Ascending values within [low, high] at steps of 1, 2 or 5 times a power of ten, at most `n_most`
// (at least 2) of them. Needs low < high, both finite.
std::vector<double> linear_ticks(double low, double high, size_t n_most);
// Powers of ten; where those are fewer than three, also their multiples by 2 and 5, then by 1.5, 3
// and 7 too, and where the range is shorter still linear_ticks(). Needs 0 < low < high.
std::vector<double> log_ticks(double low, double high);

// "0.05", "1e-5", "20000": at most 4 digits that count.
std::string tick_text(double value);

}  // namespace tessera
