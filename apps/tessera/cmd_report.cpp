// Runs of `eval --out` as a page, tables and figures, or held against each other: docs/REPORT.md.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text_util.h"
#include "catalog/child.h"
#include "eval/report_charts.h"
#include "eval/report_csv.h"
#include "eval/report_page.h"
#include "eval/run_diff.h"
#include "eval/run_log.h"
#include "reuse/policy.h"
#include "tessera/command.h"
#include "tessera/format.h"
#include "tessera/output_file.h"
#include "tessera/report_text.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Draws SVG as PNG; docs/decisions/0001-dependencies.md says why it is a program.
constexpr const char* kPngProgram = "rsvg-convert";
constexpr const char* kPngAdvice =
    "install it (Debian: apt-get install librsvg2-bin fonts-dejavu-core) or leave --png out";

struct CommandOptions {
  std::vector<std::string> files;
  bool is_diff = false;
  std::string page, csv_dir, png_dir;
  ReportOptions report = {.baseline = std::string(kDefaultPolicy)};
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidRequest, what); }

// A name that every file system and shell takes: other characters become a dash.
std::string file_word(const std::string& text) {
  constexpr size_t kLongest = 60;
  std::string out = text.substr(0, kLongest);
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  for (char& c : out) c = is_plain(c) ? c : '-';
  return out;
}

// Every group of every run with what its files' names begin with: numbered, so that they differ.
struct NamedGroup {
  std::string name;
  const Group* group = nullptr;
};
std::vector<NamedGroup> named_groups(const std::vector<ReportedRun>& runs) {
  std::vector<NamedGroup> out;
  for (const ReportedRun& run : runs) {
    for (const Group& group : run.groups) {
      out.push_back({fmt::format("{:02}-{}-{}", out.size() + 1, file_word(group.task),
                                 file_word(group.anchor)),
                     &group});
    }
  }
  return out;
}

// One SVG file as a PNG of twice its size.
void convert(const Session& session, const fs::path& svg, const fs::path& png) {
  const Command command = {
      .arguments = {kPngProgram, "--zoom", "2", "-o", png.string(), svg.string()},
      .environment = {},
      .log = fs::path(svg).replace_extension("log")};
  const ChildResult result = run_child(command, [] {}, session.stop_token());
  if (result.start_errno != 0) {
    throw Error(ErrorCode::kNotFound, fmt::format("cannot run {} - {} - {}", kPngProgram,
                                                  std::strerror(result.start_errno), kPngAdvice));
  }
  if (result.exit_status == 0) return;
  const std::vector<std::byte> said = read_file(command.log).value_or(std::vector<std::byte>());
  throw Error(
      ErrorCode::kIo,
      fmt::format("{} ended with status {} - {} - {}", kPngProgram, result.exit_status,
                  quote({reinterpret_cast<const char*>(said.data()), said.size()}), kPngAdvice));
}

size_t write_pngs(const Session& session, const fs::path& dir,
                  const std::vector<NamedGroup>& groups) {
  make_private_dir(dir);
  // An absolute path is never taken for an option.
  const ScratchFolder scratch(fs::absolute(dir));
  const fs::path svg = scratch.path() / "figure.svg", png = scratch.path() / "figure.png";
  size_t n_files = 0;
  for (const NamedGroup& named : groups) {
    for (const Figure& figure : report_figures(*named.group)) {
      write_output(svg, chart_svg({figure.panel}));
      convert(session, svg, png);
      fs::rename(png, dir / fmt::format("{}-{}.png", named.name, figure.name));
      ++n_files;
    }
  }
  return n_files;
}

size_t write_csvs(const fs::path& dir, const std::vector<NamedGroup>& groups) {
  make_private_dir(dir);
  for (const NamedGroup& named : groups) {
    write_output(dir / (named.name + "-table.csv"), group_csv(*named.group));
    write_output(dir / (named.name + "-frontier.csv"), frontier_csv(*named.group));
  }
  return 2 * groups.size();
}

json run_json(const ReportedRun& run) {
  json groups = report_json(run.groups);
  for (size_t i = 0; i < run.groups.size(); ++i)
    groups[i]["frontier"] = frontier_json(frontier_points(run.groups[i]));
  return {{"file", run.file.name},
          {"config", run.file.config},
          {"config_digest", config_digest(run.file.config)},
          {"sessions", run.file.sessions},
          {"rows", run.file.rows.size()},
          {"baseline", run.baseline},
          {"groups", std::move(groups)}};
}

void print(const Session& session, const std::vector<ReportedRun>& runs,
           const ReportOptions& options) {
  if (session.json()) {
    json all = json::array();
    for (const ReportedRun& run : runs) all.push_back(run_json(run));
    return session.print_json({{"metrics", metrics_json()},
                               {"resamples", options.n_resamples},
                               {"runs", std::move(all)}});
  }
  for (const ReportedRun& run : runs) {
    session.print(fmt::format("{}{}\n", &run == &runs.front() ? "" : "\n", run.file.name));
    for (const Group& group : run.groups) {
      session.print(group_text(group, run.baseline));
      session.print(frontier_text(group));
    }
  }
}

bool has_baseline(const ReportedRun& run) {
  return std::ranges::any_of(run.groups, [&](const Group& group) {
    return std::ranges::any_of(group.lines,
                               [&](const PolicyLine& line) { return line.policy == run.baseline; });
  });
}

void report_runs(const Session& session, const CommandOptions& o) {
  std::vector<ReportedRun> runs;
  for (const std::string& file : o.files) {
    runs.push_back(report_run(read_run_file(file), o.report));
    if (has_baseline(runs.back())) continue;
    session.note(
        fmt::format("{}: no differences are shown - no row is of the baseline {} - name "
                    "one of its policies with --baseline",
                    file, o.report.baseline));
  }
  const std::vector<NamedGroup> groups = named_groups(runs);
  // First what may be missing.
  if (!o.png_dir.empty()) {
    const size_t n = write_pngs(session, o.png_dir, groups);
    session.note(fmt::format("{} in {}", counted(n, "figure"), o.png_dir));
  }
  if (!o.csv_dir.empty())
    session.note(
        fmt::format("{} in {}", counted(write_csvs(o.csv_dir, groups), "table"), o.csv_dir));
  if (!o.page.empty()) {
    write_output(o.page, report_page(runs));
    session.note(fmt::format("the page is {}", o.page));
  }
  print(session, runs, o.report);
}

void report_diff(const Session& session, const CommandOptions& o) {
  if (o.files.size() != 2) {
    refuse(
        fmt::format("report --diff - holds two runs against each other, {} given - name the "
                    "earlier file, then the later one",
                    o.files.size() == 1 ? "one was" : counted(o.files.size(), "file") + " were"));
  }
  if (!o.page.empty() || !o.csv_dir.empty() || !o.png_dir.empty())
    refuse("report --diff - writes no files - leave --out, --csv and --png out, or --diff");
  const RunFile first = read_run_file(o.files[0]), second = read_run_file(o.files[1]);
  const RunDiff diff = diff_runs(
      first, second, {.n_resamples = o.report.n_resamples, .seed = seed_of(first, o.report.seed)});
  if (session.json()) {
    json out = diff_json(diff);
    out["files"] = o.files;
    return session.print_json(out);
  }
  session.print(diff_text(diff));
}

}  // namespace

void add_report(CLI::App& app, Session& session) {
  auto options = std::make_shared<CommandOptions>();
  CLI::App* sub = app.add_subcommand(
      "report", "Runs of 'eval --out' as tables, a page and figures, or what changed between two");
  sub->add_option("FILE", options->files, "JSONL files that 'tessera eval --out' wrote")
      ->required();
  sub->add_option("--out", options->page, "HTML page to write, whole in itself");
  sub->add_option("--csv", options->csv_dir, "Folder for the tables as CSV");
  sub->add_option("--png", options->png_dir,
                  "Folder for the figures as PNG; needs the program rsvg-convert");
  sub->add_flag("--diff", options->is_diff,
                "Take two files, pair their rows by question and policy, and say what changed");
  sub->add_option("--baseline", options->report.baseline,
                  "Policy that the others' differences are taken from, question by question")
      ->capture_default_str();
  sub->add_option("--resamples", options->report.n_resamples, "Of the bootstrap intervals")
      ->check(CLI::Range(100, 20000))
      ->capture_default_str();
  sub->callback([options, &session] {
    make_policy(options->report.baseline, {});
    if (options->is_diff) return report_diff(session, *options);
    report_runs(session, *options);
  });
}

}  // namespace tessera
