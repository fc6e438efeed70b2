#include "eval/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "eval/registry.h"

namespace tessera {
namespace {

// Places of the metrics that the table shows.
std::vector<size_t> shown_metrics(const Group& group) {
  std::vector<size_t> out;
  for (size_t i = 0; i < metrics().size(); ++i) {
    const auto has_value = [i](const PolicyLine& line) { return line.metrics[i].n > 0; };
    if (metrics()[i].is_in_table && std::ranges::any_of(group.lines, has_value)) out.push_back(i);
  }
  return out;
}

// The difference in KL to the baseline.
ReportCell difference_cell(const PolicyLine& line) {
  for (size_t i = 0; i < line.differences.size(); ++i) {
    const Metric& metric = metrics()[i];
    if (metric.name == "kl")
      return estimate_cell(line.differences[i], metric.decimals, line.n_paired);
  }
  return {};
}

}  // namespace

std::string ReportCell::text() const {
  std::string out = value;
  for (const std::string* part : {&interval, &note}) {
    if (!part->empty()) out += " " + *part;
  }
  return out;
}

ReportCell estimate_cell(const Estimate& e, int decimals, size_t n_of_line) {
  if (e.n == 0) return {};
  return {fmt::format("{:.{}f}", e.value, decimals),
          fmt::format("[{:.{}f}, {:.{}f}]", e.low, decimals, e.high, decimals),
          e.n == n_of_line ? "" : fmt::format("n {}", e.n)};
}

ReportTable report_table(const Group& group, const std::string& baseline) {
  const std::vector<size_t> shown = shown_metrics(group);
  ReportTable out = {{"policy", "ratio", "n"}, {}};
  for (const size_t i : shown) out.columns.emplace_back(metrics()[i].title);
  out.columns.push_back("KL - " + baseline);
  for (const PolicyLine& line : group.lines) {
    std::vector<ReportCell> cells = {{line.policy, "", ""},
                                     {fmt::format("{:.4g}", line.ratio), "", ""},
                                     {fmt::format("{}", line.n), "", ""}};
    for (const size_t i : shown)
      cells.push_back(estimate_cell(line.metrics[i], metrics()[i].decimals, line.n));
    cells.push_back(difference_cell(line));
    out.rows.push_back(std::move(cells));
  }
  return out;
}

}  // namespace tessera
