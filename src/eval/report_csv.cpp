#include "eval/report_csv.h"

#include <fmt/format.h>

#include "eval/registry.h"

namespace tessera {
namespace {

// Shortest digits that read back as the same number.
std::string number(double value) { return fmt::format("{}", value); }

// Value, low, high and n, empty where there is no value.
void add_estimate(std::vector<std::string>& cells, const Estimate& e) {
  if (e.n == 0) {
    cells.resize(cells.size() + 4);
    return;
  }
  cells.insert(cells.end(),
               {number(e.value), number(e.low), number(e.high), fmt::format("{}", e.n)});
}

}  // namespace

std::string csv_line(const std::vector<std::string>& cells) {
  std::string out;
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) out += ',';
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      out += cell;
      continue;
    }
    out += '"';
    for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    out += '"';
  }
  return out + "\r\n";
}

std::string group_csv(const Group& group) {
  std::string out =
      csv_line({"task", "anchor", "policy", "ratio", "questions", "metric", "unit", "value", "low",
                "high", "n", "difference", "difference_low", "difference_high", "difference_n"});
  for (const PolicyLine& line : group.lines) {
    for (size_t i = 0; i < line.metrics.size(); ++i) {
      if (line.metrics[i].n == 0) continue;
      std::vector<std::string> cells = {group.task,
                                        group.anchor,
                                        line.policy,
                                        number(line.ratio),
                                        fmt::format("{}", line.n),
                                        std::string(metrics()[i].name),
                                        std::string(metrics()[i].unit)};
      add_estimate(cells, line.metrics[i]);
      add_estimate(cells, i < line.differences.size() ? line.differences[i] : Estimate{});
      out += csv_line(cells);
    }
  }
  return out;
}

std::string frontier_csv(const Group& group) {
  std::string out = csv_line({"task", "anchor", "policy", "ratio", "ttft_ratio", "kl", "kl_low",
                              "kl_high", "on_frontier"});
  for (const FrontierPoint& point : frontier_points(group)) {
    out += csv_line({group.task, group.anchor, point.policy, number(point.ratio),
                     number(point.ttft_ratio), number(point.kl.value), number(point.kl.low),
                     number(point.kl.high), point.is_on ? "1" : "0"});
  }
  return out;
}

}  // namespace tessera
