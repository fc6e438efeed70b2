// How far policies choose the same tokens to recompute: docs/ANALYSIS.md.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text_util.h"
#include "eval/overlap.h"
#include "eval/report.h"
#include "eval/runner.h"
#include "eval/stored_passages.h"
#include "tessera/analyze.h"
#include "tessera/format.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kCommand = "analyze overlap";

struct OverlapOptions {
  ModelOptions model;
  std::vector<std::string> more_scorers;
  std::vector<std::string> scorer_layers = {"all", "two_thirds", "last"};
  QuestionOptions questions = {.limits = {.n_samples = 10}};
  double ratio = PolicyOptions().recompute_ratio;
  std::string anchor = "leadin";
  int32_t leadin_tokens = StoreSettings().leadin_tokens;
  uint64_t seed = 0;
  std::string out;
};

// A way to choose.
struct Variant {
  std::string name;
  std::string policy;
  PolicyOptions options;
};

// Those that read no scorer, or those that do. speccache in all the forms that its paper compares.
std::vector<Variant> variants_of(const OverlapOptions& o, bool of_scorer) {
  PolicyOptions base;
  base.recompute_ratio = o.ratio;
  base.seed = o.seed;
  std::vector<Variant> out;
  if (!of_scorer) {
    for (const PolicyInfo& policy : policies()) {
      const bool chooses = policy.reads_ratio && !Engine::needs_scorer(policy.name, base);
      if (chooses) out.push_back({std::string(policy.name), std::string(policy.name), base});
    }
    return out;
  }
  const auto add = [&](const std::string& name, const PolicyOptions& options) {
    out.push_back({"speccache" + name, "speccache", options});
  };
  add("", base);
  PolicyOptions online = base;
  online.online_scores = true;
  add(" online", online);
  for (const std::string& layers : o.scorer_layers) {
    PolicyOptions options = base;
    options.layers = layers;
    add(" " + layers, options);
  }
  PolicyOptions plain = base;
  plain.spans.reading = SpanReading::kNone;
  add(" no spans", plain);
  PolicyOptions attention = base;
  attention.scorer_attention = true;
  out.push_back({"query_aware scorer", "query_aware", attention});
  return out;
}

// What was chosen, with the names of the variants.
struct Chosen {
  std::vector<std::string> names;
  std::vector<Choices> questions;  // of all sets, one behind the other
};

// What `variants` choose for one question, `id`.
Choices choose(Workspace& workspace, const std::vector<Variant>& variants, Request request,
               const std::string& id, const std::stop_token& stop) {
  Engine& engine = workspace.engine();
  Choices out;
  out.n_tokens = n_loaded_tokens(store_passages(engine, request, id, stop).plan.segments);
  for (const Variant& variant : variants) {
    request.policy = variant.policy;
    request.policy_options = variant.options;
    if (workspace.scorer() != nullptr) {
      store_for_scorer(*workspace.scorer(), request, id,
                       *make_policy(variant.policy, variant.options), stop);
    }
    out.chosen.push_back(chosen_positions(engine.prefill(request, stop).plan));
  }
  return out;
}

void refuse_without_choice(const EvalSet& set, const Sample& sample, const Choices& choices) {
  if (choices.n_tokens > 0) return;
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("question {} of {} - all of its KV is exact, so that there is nothing to "
                          "choose - give more passages (--passages), another --anchor, or leave "
                          "the question out",
                          quote(sample.id), quote(set.task)));
}

// For all questions with one workspace.
std::vector<Choices> choose(const Session& session, Workspace& workspace,
                            const std::vector<Variant>& variants, const OverlapOptions& o,
                            const std::vector<EvalSet>& sets) {
  size_t n = 0;
  for (const EvalSet& set : sets) n += set.samples.size();
  std::vector<Choices> out;
  ProgressBar bar(session, "prompts", n, ProgressBar::Unit::kItems);
  const auto add = [&](const EvalSet& set, const Sample& sample) {
    bar.update(out.size(), fmt::format("{} {}", set.task, sample.id));
    Request request = request_of(sample);
    request.anchor = anchor_from_name(o.anchor).value_or(request.anchor);
    out.push_back(choose(workspace, variants, request, sample.id, session.stop_token()));
    refuse_without_choice(set, sample, out.back());
    bar.update(out.size());
  };
  for (const EvalSet& set : sets) {
    for (const Sample& sample : set.samples) add(set, sample);
  }
  return out;
}

// Puts further variants beside those that are there.
void add_variants(const std::vector<Variant>& variants, std::vector<Choices> questions,
                  Chosen& out) {
  for (const Variant& variant : variants) out.names.push_back(variant.name);
  if (out.questions.empty()) {
    out.questions = std::move(questions);
    return;
  }
  for (size_t i = 0; i < questions.size(); ++i)
    std::ranges::move(questions[i].chosen, std::back_inserter(out.questions[i].chosen));
}

struct SetReport {
  std::string task;
  size_t n = 0;
  OverlapReport report;
};

SetReport report_of(const std::string& task, std::span<const Choices> questions) {
  const ReportOptions defaults;
  const Resamples resamples(questions.size(), defaults.n_resamples, defaults.seed);
  return {task, questions.size(), overlap_report(questions, resamples)};
}

json to_json(const SetReport& set) {
  const OverlapReport& r = set.report;
  json overlap = json::array(), chance = json::array();
  for (size_t a = 0; a < r.n_variants; ++a) {
    json row = json::array(), chance_row = json::array();
    for (size_t b = 0; b < r.n_variants; ++b) {
      row.push_back(to_json(r.at(a, b)));
      chance_row.push_back(r.chance_at(a, b));
    }
    overlap.push_back(std::move(row));
    chance.push_back(std::move(chance_row));
  }
  return {{"task", set.task},
          {"prompts", set.n},
          {"chosen_share", r.chosen_share},
          {"overlap", std::move(overlap)},
          {"by_chance", std::move(chance)}};
}

HeatPanel panel_of(const std::string& title, const std::vector<std::string>& names,
                   std::vector<double> values) {
  std::vector<std::string> columns;
  for (size_t i = 1; i <= names.size(); ++i) columns.push_back(fmt::format("{}", i));
  std::vector<std::string> rows;
  for (size_t i = 0; i < names.size(); ++i) rows.push_back(fmt::format("{} {}", i + 1, names[i]));
  return {title, std::move(rows), std::move(columns), std::move(values)};
}

HeatStrip strip_of(const SetReport& set, const std::vector<std::string>& names) {
  std::vector<double> overlap;
  overlap.reserve(set.report.overlap.size());
  for (const Estimate& e : set.report.overlap) overlap.push_back(e.value);
  return {heat_title(set.task),
          {panel_of("Jaccard overlap", names, std::move(overlap)),
           panel_of("by chance", names, set.report.by_chance)}};
}

void print_table(const Session& session, const SetReport& set,
                 const std::vector<std::string>& names) {
  constexpr auto kRight = Table::Align::kRight;
  const OverlapReport& r = set.report;
  std::vector<Table::Column> columns = {
      {""}, {"variant"}, {"chosen", kRight}, {"by chance", kRight}};
  for (size_t i = 1; i <= names.size(); ++i) columns.push_back({fmt::format("{}", i), kRight});
  Table table(columns);
  for (size_t a = 0; a < names.size(); ++a) {
    double chance = 0;  // sets are about of one size, so one number says it
    for (size_t b = 0; b < names.size(); ++b)
      chance += b == a ? 0 : r.chance_at(a, b) / static_cast<double>(names.size() - 1);
    std::vector<std::string> cells = {fmt::format("{}", a + 1), names[a],
                                      fmt::format("{:.3f}", r.chosen_share[a]),
                                      fmt::format("{:.3f}", chance)};
    for (size_t b = 0; b < names.size(); ++b)
      cells.push_back(b == a ? "-" : fmt::format("{:.2f}", r.at(a, b).value));
    table.add_row(std::move(cells));
  }
  session.print(fmt::format("\n{}, n {}\n{}", set.task, set.n, table.text()));
}

// The scorers to go through; none where there is none.
std::vector<std::string> scorers_of(const OverlapOptions& o) {
  std::vector<std::string> out;
  if (has_scorer(o.model, {}))
    out.push_back(o.model.scorer.empty() ? kDefaultScorer : o.model.scorer);
  for (const std::string& name : o.more_scorers) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
}

Chosen choose_all(const Session& session, const OverlapOptions& o, const std::vector<EvalSet>& sets,
                  const StoreSettings& settings, std::unique_ptr<Workspace>& workspace) {
  const std::vector<std::string> scorers = scorers_of(o);
  if (scorers.empty())
    session.note("speccache is left out: it needs a scorer - give one with --scorer");
  Chosen out;
  workspace = std::make_unique<Workspace>(o.model, settings);
  check_lengths(workspace->engine(), sets);
  const std::vector<Variant> unscored = variants_of(o, false);
  add_variants(unscored, choose(session, *workspace, unscored, o, sets), out);
  for (const std::string& scorer : scorers) {
    std::vector<Variant> variants = variants_of(o, true);
    for (Variant& variant : variants) {
      if (scorers.size() > 1) variant.name += " @ " + scorer;
    }
    ModelOptions options = o.model;
    options.scorer = scorer;
    workspace.reset();  // two targets do not fit at once
    workspace = std::make_unique<Workspace>(options, settings, true);
    add_variants(variants, choose(session, *workspace, variants, o, sets), out);
  }
  return out;
}

void analyze_overlap(Session& session, const OverlapOptions& o) {
  check_questions(kCommand, o.questions);
  for (const Variant& variant : variants_of(o, true))
    make_policy(variant.policy, variant.options);  // slips are said before a model loads
  const std::vector<EvalSet> sets = read_sets(kCommand, o.questions);
  const AnalysisFolder folder(o.out, "overlap");
  StoreSettings settings;
  settings.name_space = kMeasureNameSpace;
  settings.leadin_tokens = o.leadin_tokens;
  std::unique_ptr<Workspace> workspace;
  const Chosen chosen = choose_all(session, o, sets, settings, workspace);

  std::vector<SetReport> reports;
  std::span<const Choices> rest = chosen.questions;
  for (const EvalSet& set : sets) {
    reports.push_back(report_of(set.task, rest.first(set.samples.size())));
    rest = rest.subspan(set.samples.size());
  }
  json report = analysis_json(o.model, o.questions, *workspace, true);
  report["ratio"] = o.ratio;
  report["anchor"] = o.anchor;
  report["leadin_tokens"] = o.leadin_tokens;
  report["seed"] = o.seed;
  report["scorers"] = scorers_of(o);
  report["variants"] = chosen.names;
  report["tasks"] = json::array();
  std::vector<HeatStrip> strips;
  for (const SetReport& set : reports) {
    report["tasks"].push_back(to_json(set));
    strips.push_back(strip_of(set, chosen.names));
  }
  if (folder.is_wanted()) folder.write(report, strips);
  if (session.json()) return session.print_json(report);
  for (const SetReport& set : reports) print_table(session, set, chosen.names);
  if (folder.is_wanted()) session.note(folder.text());
}

}  // namespace

void add_analyze_overlap(CLI::App& analyze, Session& session) {
  auto options = std::make_shared<OverlapOptions>();
  CLI::App* sub = analyze.add_subcommand(
      "overlap", "How far policies, and forms of speccache, choose the same tokens to recompute");
  options->questions.add_to(*sub);
  sub->add_option("--ratio", options->ratio, "Share of reused tokens that is recomputed")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sub->add_option("--anchor", options->anchor,
                  "What stood before the chunks when they were computed")
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}))
      ->capture_default_str();
  sub->add_option("--leadin-tokens", options->leadin_tokens, "Length of the lead-in")
      ->check(CLI::Range(1, kMaxLeadinTokens))
      ->capture_default_str();
  sub->add_option("--more-scorers", options->more_scorers,
                  "Other scorers beside --scorer, whose choices are compared too")
      ->delimiter(',');
  sub->add_option("--scorer-layers", options->scorer_layers,
                  "speccache: layers that scores are read from, beside the last third: all, "
                  "two_thirds, half, last or numbers as in 0-0")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_option("--seed", options->seed, "Of the policy 'random'")->capture_default_str();
  sub->add_option("--out", options->out, "Folder for overlap.json, overlap.svg and overlap.png");
  options->model.add_to(*sub);
  sub->callback([options, &session] { analyze_overlap(session, *options); });
}

}  // namespace tessera
