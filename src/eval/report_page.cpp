#include "eval/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "eval/markup.h"
#include "eval/report_charts.h"
#include "eval/report_table.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Tessera: evaluation report</title>
<style>
body { font: 16px/1.5 "DejaVu Sans", Arial, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 1320px; margin: 0 auto; padding: 12px 16px 48px; }
h2 { border-top: 2px solid #1a1a1a; padding-top: 16px; margin-top: 40px; overflow-wrap: anywhere; }
h3 { margin: 32px 0 8px; overflow-wrap: anywhere; }
p { max-width: 80ch; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 4px 10px; text-align: right; vertical-align: top; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #1a1a1a; vertical-align: bottom; }
th:first-child, td:first-child, .origin td, .origin th { text-align: left; }
.origin td { overflow-wrap: anywhere; }
.results td { font-variant-numeric: tabular-nums; white-space: nowrap; }
.results td:first-child { position: sticky; left: 0; background: #fff; }
small { display: block; color: #444; font-size: 12px; }
.figures { display: flex; flex-wrap: wrap; gap: 24px 16px; align-items: flex-start; }
figure { flex: 1 1 540px; max-width: 640px; margin: 8px 0; min-width: 0; }
figure svg { max-width: 100%; height: auto; display: block; }
figcaption { font-size: 14px; color: #333; }
</style>
</head>
<body>
)";

constexpr std::string_view kReading = R"(<p>Each policy reuses keys and values that were computed
earlier and is held against full prefill on the same questions. KL is the mean distance of its
distributions from full prefill's, in nats: 0 is equal. The TTFT ratio is full prefill's time to
first token over the policy's: above 1 it is sooner. In brackets are 95% bootstrap intervals over the
questions. Lower is better for KL, gold NLL and rows / N, higher for all others.</p>
)";

std::string cell_html(const ReportCell& cell) {
  std::string out = escape_markup(cell.value);
  for (const std::string* part : {&cell.interval, &cell.note}) {
    if (!part->empty()) out += "<small>" + escape_markup(*part) + "</small>";
  }
  return out;
}

std::string table_html(const ReportTable& table) {
  std::string out = "<div class=\"wide\"><table class=\"results\">\n<tr>";
  for (const std::string& column : table.columns)
    out += "<th scope=\"col\">" + escape_markup(column) + "</th>";
  out += "</tr>\n";
  for (const std::vector<ReportCell>& row : table.rows) {
    out += "<tr>";
    for (const ReportCell& cell : row) out += "<td>" + cell_html(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

// Says which lines are over too few questions, if any.
std::string lead_html(const Group& group) {
  const auto is_few = [](const PolicyLine& line) { return line.n < kFewestQuestions; };
  const bool are_all = std::ranges::all_of(group.lines, is_few);
  if (!are_all && std::ranges::none_of(group.lines, is_few)) return "";
  return fmt::format(
      "<p><strong>A lead, not a result:</strong> {} over fewer than {} questions.</p>\n",
      are_all ? "these numbers are" : "lines with such an n are", kFewestQuestions);
}

std::string figure_html(const Figure& figure) {
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n",
                     chart_svg({figure.panel}), escape_markup(figure.caption));
}

std::string group_html(const Group& group, const std::string& baseline) {
  std::string out = fmt::format("<h3>{}, anchor {}</h3>\n{}{}", escape_markup(group.task),
                                escape_markup(group.anchor), lead_html(group),
                                table_html(report_table(group, baseline)));
  out += "<div class=\"figures\">\n";
  for (const Figure& figure : report_figures(group)) out += figure_html(figure);
  return out + "</div>\n";
}

bool says_nothing(const json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && value.empty());
}

void add_origin_rows(std::string& out, const json& object) {
  for (const auto& [name, value] : object.items()) {
    if (says_nothing(value)) continue;
    const std::string text = value.is_string()
                                 ? value.get<std::string>()
                                 : value.dump(-1, ' ', false, json::error_handler_t::replace);
    fmt::format_to(std::back_inserter(out), "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
                   escape_markup(name), escape_markup(text));
  }
}

std::string origin_html(const RunFile& file) {
  std::string out = "<h3>Origin</h3>\n<table class=\"origin\">\n";
  add_origin_rows(out, file.config);
  for (size_t i = 0; i < file.sessions.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "<tr><th colspan=\"2\">Start {} of {}</th></tr>\n",
                   i + 1, file.sessions.size());
    add_origin_rows(out, file.sessions[i]);
  }
  return out + "</table>\n";
}

// The model's name is the session's; a file that says none has its path alone.
std::string run_html(const ReportedRun& run) {
  const json& session = run.file.sessions.front();
  const auto model = session.find("model");
  const bool has_model = model != session.end() && model->is_string();
  std::string out = fmt::format("<section>\n<h2>{}{}</h2>\n",
                                has_model ? escape_markup(model->get<std::string>()) + ": " : "",
                                escape_markup(run.file.name));
  for (const Group& group : run.groups) out += group_html(group, run.baseline);
  return out + origin_html(run.file) + "</section>\n";
}

}  // namespace

ReportedRun report_run(RunFile file, const ReportOptions& options) {
  ReportOptions own = options;
  own.seed = seed_of(file, options.seed);
  std::vector<Measurement> rows;
  rows.reserve(file.rows.size());
  for (const auto& [key, measurement] : file.rows) rows.push_back(measurement);
  std::vector<Group> groups = summarize(rows, own);
  return {std::move(file), own.baseline, std::move(groups)};
}

std::string report_page(std::span<const ReportedRun> runs) {
  std::string out = std::string(kHead) + "<h1>Evaluation report</h1>\n" + std::string(kReading);
  for (const ReportedRun& run : runs) out += run_html(run);
  return out + "</body>\n</html>\n";
}

}  // namespace tessera
