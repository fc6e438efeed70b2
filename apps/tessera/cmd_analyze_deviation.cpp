// How far reused KV is from full prefill's, by layer and anchor: docs/ANALYSIS.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text_util.h"
#include "eval/deviation.h"
#include "eval/report.h"
#include "eval/runner.h"
#include "tessera/analyze.h"
#include "tessera/format.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kCommand = "analyze deviation";

struct DeviationOptions {
  ModelOptions model;
  QuestionOptions questions = {.limits = {.n_samples = 10}};
  std::vector<std::string> anchors = {"bare", "preamble", "leadin"};
  int32_t leadin_tokens = StoreSettings().leadin_tokens;
  std::string out;
};

// Of one set: per question the deviation under each anchor.
using Measured = std::vector<std::vector<PromptDeviation>>;

struct SetReport {
  std::string task;
  size_t n = 0;
  std::vector<DeviationReport> anchors;
};

std::vector<AnchorKind> anchor_kinds(const DeviationOptions& o) {
  std::vector<AnchorKind> out;
  for (const std::string& name : o.anchors) {
    const std::optional<AnchorKind> kind = anchor_from_name(name);
    if (kind && std::find(out.begin(), out.end(), *kind) == out.end()) out.push_back(*kind);
  }
  return out;
}

// One for each set; what is finished when a stop is asked for is kept.
std::vector<Measured> measure(const Session& session, Engine& engine,
                              const std::vector<EvalSet>& sets,
                              const std::vector<AnchorKind>& anchors) {
  size_t n_planned = 0, n_done = 0;
  for (const EvalSet& set : sets) n_planned += set.samples.size();
  std::vector<Measured> out(sets.size());
  ProgressBar bar(session, "prompts", n_planned, ProgressBar::Unit::kItems);
  const auto add = [&](size_t set, const Sample& sample) {
    bar.update(n_done, fmt::format("{} {}", sets[set].task, sample.id));
    try {
      out[set].push_back(
          measure_deviation(engine, request_of(sample), sample.id, anchors, session.stop_token()));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidRequest) throw;
      throw Error(error.code(), fmt::format("question {} of {} - {}, or leave the question out",
                                            quote(sample.id), quote(sets[set].task), error.what()));
    }
    bar.update(++n_done);
  };
  try {
    for (size_t set = 0; set < sets.size(); ++set) {
      for (const Sample& sample : sets[set].samples) add(set, sample);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || n_done == 0) throw;
  }
  return out;
}

SetReport report_of(const std::string& task, const Measured& measured) {
  const ReportOptions defaults;
  const Resamples resamples(measured.size(), defaults.n_resamples, defaults.seed);
  SetReport out = {task, measured.size(), {}};
  for (size_t anchor = 0; anchor < measured.front().size(); ++anchor) {
    std::vector<PromptDeviation> prompts;
    for (const std::vector<PromptDeviation>& question : measured)
      prompts.push_back(question[anchor]);
    out.anchors.push_back(deviation_report(prompts, resamples));
  }
  return out;
}

json to_json(const MatrixEstimate& m) {
  return {{"error", to_json(m.error)},
          {"cosine", to_json(m.cosine)},
          {"head_share", to_json(m.head_share)}};
}

json to_json(const SetReport& set, const std::vector<AnchorKind>& anchors) {
  json out = json::array();
  for (size_t i = 0; i < anchors.size(); ++i) {
    const DeviationReport& r = set.anchors[i];
    json layers = json::array();
    for (size_t m = 0; m < r.matrices.size(); m += 2) {
      layers.push_back(
          {{"layer", m / 2}, {"k", to_json(r.matrices[m])}, {"v", to_json(r.matrices[m + 1])}});
    }
    out.push_back({{"anchor", anchor_name(anchors[i])},
                   {"k", to_json(r.k)},
                   {"v", to_json(r.v)},
                   {"head_tokens_share", r.head_tokens_share},
                   {"layers", std::move(layers)}});
  }
  return {{"task", set.task}, {"prompts", set.n}, {"anchors", std::move(out)}};
}

// [anchors, layers] of K (0) or V (1).
template <typename Value>
HeatPanel panel_of(const std::string& title, const SetReport& set,
                   const std::vector<AnchorKind>& anchors, size_t first, Value value) {
  HeatPanel out = {title, {}, {}, {}};
  for (size_t i = 0; i < anchors.size(); ++i) {
    out.rows.emplace_back(anchor_name(anchors[i]));
    const std::vector<MatrixEstimate>& matrices = set.anchors[i].matrices;
    for (size_t m = first; m < matrices.size(); m += 2) out.values.push_back(value(matrices[m]));
  }
  for (size_t layer = 0; 2 * layer < set.anchors.front().matrices.size(); ++layer)
    out.columns.push_back(fmt::format("{}", layer));
  return out;
}

std::vector<HeatStrip> strips_of(const SetReport& set, const std::vector<AnchorKind>& anchors) {
  const auto strip = [&](const std::string& what, auto value) {
    return HeatStrip{fmt::format("{}: {}", heat_title(set.task), what),
                     {panel_of("K by layer", set, anchors, 0, value),
                      panel_of("V by layer", set, anchors, 1, value)}};
  };
  return {strip("relative squared error (1 and more: darkest)",
                [](const MatrixEstimate& m) { return m.error.value; }),
          strip("1 - cosine", [](const MatrixEstimate& m) { return 1 - m.cosine.value; }),
          strip(fmt::format("share of the first {} tokens of each chunk", kHeadTokens),
                [](const MatrixEstimate& m) { return m.head_share.value; })};
}

void print_table(const Session& session, const std::vector<SetReport>& sets,
                 const std::vector<AnchorKind>& anchors) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"task"},
               {"anchor"},
               {"n", kRight},
               {""},
               {"relative error", kRight},
               {"cosine", kRight},
               {"share of heads", kRight},
               {"of tokens", kRight},
               {"worst layer", kRight}});
  const auto add = [&](const SetReport& set, size_t anchor, size_t first) {
    const DeviationReport& r = set.anchors[anchor];
    const MatrixEstimate& mean = first == 0 ? r.k : r.v;
    size_t worst = first;
    for (size_t m = first; m < r.matrices.size(); m += 2) {
      if (r.matrices[m].error.value > r.matrices[worst].error.value) worst = m;
    }
    table.add_row({set.task, std::string(anchor_name(anchors[anchor])), fmt::format("{}", set.n),
                   first == 0 ? "K" : "V", cell(mean.error), cell(mean.cosine),
                   cell(mean.head_share), fmt::format("{:.3f}", r.head_tokens_share),
                   fmt::format("{}: {:.3f}", worst / 2, r.matrices[worst].error.value)});
  };
  for (const SetReport& set : sets) {
    for (size_t anchor = 0; anchor < anchors.size(); ++anchor) {
      for (const size_t first : {0, 1}) add(set, anchor, first);
    }
  }
  session.print(table.text());
}

void analyze_deviation(Session& session, const DeviationOptions& o) {
  check_questions(kCommand, o.questions);
  const std::vector<EvalSet> sets = read_sets(kCommand, o.questions);
  const AnalysisFolder folder(o.out, "deviation");
  const std::vector<AnchorKind> anchors = anchor_kinds(o);
  StoreSettings settings;
  settings.name_space = kMeasureNameSpace;
  settings.leadin_tokens = o.leadin_tokens;
  Workspace workspace(o.model, settings);
  check_lengths(workspace.engine(), sets);
  const std::vector<Measured> measured = measure(session, workspace.engine(), sets, anchors);

  std::vector<SetReport> reports;
  bool is_complete = true;
  for (size_t i = 0; i < sets.size(); ++i) {
    is_complete = is_complete && measured[i].size() == sets[i].samples.size();
    if (!measured[i].empty()) reports.push_back(report_of(sets[i].task, measured[i]));
  }
  json report = analysis_json(o.model, o.questions, workspace, is_complete);
  report["leadin_tokens"] = o.leadin_tokens;
  report["head_tokens"] = kHeadTokens;
  report["tasks"] = json::array();
  std::vector<HeatStrip> strips;
  for (const SetReport& set : reports) {
    report["tasks"].push_back(to_json(set, anchors));
    std::ranges::move(strips_of(set, anchors), std::back_inserter(strips));
  }
  if (folder.is_wanted()) folder.write(report, strips);
  if (session.json()) {
    session.print_json(report);
  } else {
    print_table(session, reports, anchors);
  }
  if (folder.is_wanted()) session.note(folder.text());
  if (!is_complete) session.note("interrupted: the numbers are over the prompts that were ready");
}

}  // namespace

void add_analyze_deviation(CLI::App& analyze, Session& session) {
  auto options = std::make_shared<DeviationOptions>();
  CLI::App* sub = analyze.add_subcommand(
      "deviation", "How far the KV of reused chunks is from full prefill's, by layer and anchor");
  options->questions.add_to(*sub);
  sub->add_option("--anchors", options->anchors,
                  "What stood before the chunks when they were computed")
      ->delimiter(',')
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}))
      ->capture_default_str();
  sub->add_option("--leadin-tokens", options->leadin_tokens, "Length of the lead-in")
      ->check(CLI::Range(1, kMaxLeadinTokens))
      ->capture_default_str();
  sub->add_option("--out", options->out,
                  "Folder for deviation.json, deviation.svg and deviation.png");
  options->model.add_to(*sub);
  sub->callback([options, &session] { analyze_deviation(session, *options); });
}

}  // namespace tessera
