#include "tessera/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};

// Code points, which is close enough to columns for the names and numbers of our tables.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  // 999.95 would print as 1000.0: it already belongs to the next unit.
  while (value >= 999.95) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : 1, kUnits[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} m", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
}

std::string human_count(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t i = text.size(); i > 3;) {
    i -= 3;
    text.insert(i, 1, ',');
  }
  return text;
}

std::string counted(uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", human_count(n), noun, n == 1 ? "" : "s");
}

std::string sooner_text(double ratio) {
  return ratio < 1 ? fmt::format("{:.2f} times later", 1 / ratio)
                   : fmt::format("{:.2f} times sooner", ratio);
}

std::string loss_text(double loss) {
  // What rounds to 0 is none.
  return fmt::format("{}{:.4f}", loss <= -0.00005 ? "gain " : "", std::abs(loss));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  CHECK(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::string> titles;
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = width_of(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    titles.push_back(columns_[c].title);
    widths.push_back(width);
  }

  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(widths[c] - width_of(cells[c]), ' ');
      const bool is_right = columns_[c].align == Align::kRight;
      line += (c == 0 ? "" : "  ") + (is_right ? padding + cells[c] : cells[c] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line(titles);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace tessera
