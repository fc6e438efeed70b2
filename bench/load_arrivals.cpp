#include "bench/load_arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "eval/sample_lines.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::string_view kColumn = "TIMESTAMP";

[[noreturn]] void refuse(const Place& at, std::string_view why) {
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("{} line {} - {} - name a trace of a form that docs/LOAD.md shows",
                          at.origin, at.line, why));
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Of "2023-11-16 18:17:03.97", since 1970.
std::optional<double> seconds_of(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  if (text.size() < kForm.size()) return std::nullopt;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    const bool is_gap = kForm[i] == ' ' && text[i] == 'T';
    if (kForm[i] == 'd' ? !is_digit : text[i] != kForm[i] && !is_gap) return std::nullopt;
  }
  const auto part = [&](size_t at, size_t n) { return *number_of<int>(text.substr(at, n)); };
  const std::chrono::year_month_day date = {std::chrono::year(part(0, 4)),
                                            std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                            std::chrono::day(static_cast<unsigned>(part(8, 2)))};
  const std::optional<double> second = number_of<double>(text.substr(17));
  if (!date.ok() || !second || part(11, 2) > 23 || part(14, 2) > 59 || *second >= 61)
    return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + part(11, 2) * 3600 + part(14, 2) * 60 + *second;
}

std::string_view field(std::string_view line, size_t column) {
  for (; column > 0; --column) {
    const size_t comma = line.find(',');
    if (comma == std::string_view::npos) return {};
    line.remove_prefix(comma + 1);
  }
  return trimmed(line.substr(0, line.find(',')));
}

size_t column_of(std::string_view header, const Place& at) {
  const auto n_columns = static_cast<size_t>(std::ranges::count(header, ',')) + 1;
  for (size_t column = 0; column < n_columns; ++column)
    if (field(header, column) == kColumn) return column;
  refuse(at, "is no JSON object, and no column is called TIMESTAMP");
}

double time_of_object(std::string_view line, const Place& at) {
  const json row = json::parse(line.begin(), line.end(), nullptr, false);
  const auto found = row.is_object() ? row.find("timestamp") : row.end();
  if (!row.is_object() || found == row.end() || !found->is_number())
    refuse(at, "is no JSON object whose \"timestamp\" is a number");
  return found->get<double>() / 1000;
}

}  // namespace

std::vector<double> parse_arrivals(std::string_view text, std::string_view origin) {
  std::vector<double> out;
  std::optional<size_t> column;  // of a CSV file
  for_each_line(text, origin, [&](std::string_view line, const Place& at) {
    line = trimmed(line);
    if (!column && line.starts_with('{')) {
      out.push_back(time_of_object(line, at));
      return true;
    }
    if (!column && out.empty()) {
      column = column_of(line, at);
      return true;
    }
    if (!column) refuse(at, "is no JSON object");
    const std::optional<double> time = seconds_of(field(line, *column));
    if (!time) refuse(at, "its TIMESTAMP is no time as in 2023-11-16 18:17:03.97");
    out.push_back(*time);
    return true;
  });
  std::ranges::sort(out);
  return out;
}

std::vector<Gaps> trace_gaps(std::span<const double> arrivals, std::string_view origin,
                             size_t n_runs, size_t n_requests, uint64_t seed) {
  if (arrivals.size() <= n_requests) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("{} - has {} arrivals, and {} requests need one more than they are - "
                            "ask for fewer, or name another trace",
                            origin, arrivals.size(), n_requests));
  }
  const auto n_gaps = static_cast<double>(arrivals.size() - 1);
  const double mean_s = (arrivals.back() - arrivals.front()) / n_gaps;
  if (!(mean_s > 0) || !std::isfinite(mean_s)) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("{} - all arrivals are at one time - name another trace", origin));
  }
  std::mt19937_64 random(seed);
  std::vector<Gaps> runs(n_runs, Gaps(n_requests));
  for (Gaps& gaps : runs) {
    const size_t begin = draw_below(random, arrivals.size() - n_requests);
    for (size_t i = 0; i < n_requests; ++i)
      gaps[i] = (arrivals[begin + i + 1] - arrivals[begin + i]) / mean_s;
  }
  return runs;
}

}  // namespace tessera
