#include "tessera/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "eval/registry.h"
#include "eval/report_charts.h"
#include "eval/report_table.h"
#include "tessera/format.h"

namespace tessera {
namespace {

// On one line, with a blank for each byte that a terminal would act on: the control characters,
// also those that UTF-8 writes as C2 80 to C2 9F.
std::string plain(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) text[i] = ' ';
    if (byte != 0xC2 || i + 1 == text.size()) continue;
    const auto next = static_cast<unsigned char>(text[i + 1]);
    if (next >= 0x80 && next <= 0x9F) text[i] = text[i + 1] = ' ';
  }
  return text;
}

std::string table_text(const ReportTable& content) {
  std::vector<Table::Column> columns;
  columns.reserve(content.columns.size());
  for (const std::string& title : content.columns)
    columns.push_back({title, columns.empty() ? Table::Align::kLeft : Table::Align::kRight});
  Table table(columns);
  for (const std::vector<ReportCell>& row : content.rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const ReportCell& cell : row) cells.push_back(plain(cell.text()));
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string title_text(const std::string& task, const std::string& anchor) {
  return fmt::format("\n{}, anchor {}\n", plain(task), plain(anchor));
}

std::string differences_text(const char* what, const std::vector<ConfigDifference>& differences) {
  if (differences.empty()) return fmt::format("{}: the same\n", what);
  std::string out = fmt::format("{} differs in\n", what);
  for (const ConfigDifference& d : differences)
    out +=
        fmt::format("  {}: {} first, {} second\n", plain(d.name), plain(d.first), plain(d.second));
  return out;
}

// Places of the metrics that some line has a value of.
std::vector<size_t> shown_metrics(std::span<const DiffLine> lines) {
  std::vector<size_t> out;
  for (size_t i = 0; i < metrics().size(); ++i) {
    const auto has_value = [i](const DiffLine& line) { return line.differences[i].n > 0; };
    if (metrics()[i].is_in_table && std::ranges::any_of(lines, has_value)) out.push_back(i);
  }
  return out;
}

// Lines of one task and anchor.
std::string lines_text(std::span<const DiffLine> lines) {
  const std::vector<size_t> shown = shown_metrics(lines);
  ReportTable table = {{"policy", "ratio", "n"}, {}};
  for (const size_t i : shown) table.columns.emplace_back(metrics()[i].title);
  for (const DiffLine& line : lines) {
    std::vector<ReportCell> cells = {{line.policy, "", ""},
                                     {fmt::format("{:.4g}", line.ratio), "", ""},
                                     {fmt::format("{}", line.n), "", ""}};
    for (const size_t i : shown)
      cells.push_back(estimate_cell(line.differences[i], metrics()[i].decimals, line.n));
    table.rows.push_back(std::move(cells));
  }
  return title_text(lines.front().task, lines.front().anchor) + table_text(table);
}

std::string question_text(const DiffQuestion& q) {
  return fmt::format(
      "{} of {}, anchor {}, {} {:.4g}: KL {:.4f} -> {:.4f}\n  first:  {}\n  second: {}\n",
      plain(q.key.id), plain(q.key.task), plain(q.key.anchor), plain(q.key.policy), q.key.ratio,
      q.first_kl, q.second_kl, plain(q.first_answer), plain(q.second_answer));
}

std::string counts_text(const RunDiff& diff) {
  std::string out = fmt::format("{} in both", counted(diff.n_paired, "row"));
  const std::pair<size_t, const char*> others[] = {
      {diff.n_first_only, "in the first only"},
      {diff.n_second_only, "in the second only"},
      {diff.n_changed, "left out, whose questions are others in the second"},
      {diff.n_other_scorer, "of those in both with another scorer"}};
  for (const auto& [n, what] : others) {
    if (n > 0) out += fmt::format("; {} {}", human_count(n), what);
  }
  return out + "\n";
}

}  // namespace

std::string group_text(const Group& group, const std::string& baseline) {
  return title_text(group.task, group.anchor) + table_text(report_table(group, baseline));
}

std::string frontier_text(const Group& group) {
  return plain(frontier_sentence(frontier_points(group))) + "\n";
}

std::string diff_text(const RunDiff& diff) {
  std::string out = differences_text("config", diff.config) +
                    differences_text("session", diff.session) + counts_text(diff);
  if (!diff.lines.empty()) out += "\nThe second run less the first, question by question:\n";
  for (size_t first = 0; first < diff.lines.size();) {
    const DiffLine& line = diff.lines[first];
    size_t last = first;
    while (last < diff.lines.size() && diff.lines[last].task == line.task &&
           diff.lines[last].anchor == line.anchor)
      ++last;
    out += lines_text(std::span(diff.lines).subspan(first, last - first));
    first = last;
  }
  if (!diff.questions.empty()) out += "\nThe greatest changes of KL:\n";
  for (const DiffQuestion& question : diff.questions) out += question_text(question);
  return out;
}

}  // namespace tessera
