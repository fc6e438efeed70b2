// How close each reuse policy comes to full prefill, on questions with known answers: docs/EVAL.md.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "eval/registry.h"
#include "eval/report.h"
#include "eval/run_log.h"
#include "eval/runner.h"
#include "tessera/build_info.h"
#include "tessera/command.h"
#include "tessera/policy_options.h"
#include "tessera/question_sets.h"
#include "tessera/report_text.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kAll = "all";
constexpr int32_t kSummaryTokens = 128;

struct EvalOptions {
  ModelOptions model;
  QuestionOptions questions;
  std::vector<std::string> policies = {kAll};
  std::vector<double> ratios = {0.15};
  std::vector<std::string> anchors = {"leadin", "preamble"};
  int32_t leadin_tokens = StoreSettings().leadin_tokens;
  PolicyOptions policy_options;
  int32_t max_tokens = 32;
  std::string out;
  uint64_t reference_limit_bytes = kReferenceLimitBytes;
  ReportOptions report = {.baseline = std::string(kDefaultPolicy)};
};

template <typename T>
void drop_repeats(std::vector<T>& values) {
  std::vector<T> seen;
  for (T& value : values) {
    if (std::find(seen.begin(), seen.end(), value) == seen.end()) seen.push_back(std::move(value));
  }
  values = std::move(seen);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "all": those that need a scorer only where there is one.
std::vector<std::string> policy_names(const Session& session, const EvalOptions& o) {
  if (!contains(o.policies, kAll)) return o.policies;
  const bool can_rate = has_scorer(o.model, {});
  std::vector<std::string> out;
  for (const PolicyInfo& policy : policies()) {
    if (can_rate || !Engine::needs_scorer(policy.name, o.policy_options)) {
      out.emplace_back(policy.name);
    } else {
      session.note(
          fmt::format("{} is left out: it needs a scorer - give one with --scorer", policy.name));
    }
  }
  return out;
}

// Slips are said before a model loads.
void check(const EvalOptions& o) {
  check_questions("eval", o.questions, "--tasks names");
  make_policy(o.report.baseline, o.policy_options);
  for (const double ratio : o.ratios) {
    PolicyOptions options = o.policy_options;
    options.recompute_ratio = ratio;
    for (const std::string& policy : o.policies) make_policy(policy, options);
  }
}

// What rows of one file must agree in. Questions, policies, ratios and anchors are no part of it: a
// later run may add some. Nor is the scorer, which only some policies read: their rows name it.
json config_of(const EvalOptions& o, const KvDomain& domain, const StoreSettings& settings,
               const std::string& corpus_digest) {
  const BuildInfo build = build_info();
  json out = {{"version", build.version},
              {"commit", build.commit},
              {"model_digest", domain.model_digest},
              {"weight_types", domain.weight_types},
              {"scorer_kv", o.model.scorer_kv},
              {"leadin_tokens", settings.leadin_tokens},
              {"max_tokens", o.max_tokens},
              {"passages", o.questions.limits.n_passages},
              {"seed", o.report.seed},
              {"policy_options", policy_options_json(o.policy_options)}};
  if (o.questions.chunk_tokens > 0) out["chunk_tokens"] = o.questions.chunk_tokens;
  if (o.questions.n_retrieved > 0) {
    out["retrieve"] = o.questions.n_retrieved;
    out["corpus_digest"] = corpus_digest;
  }
  return out;
}

json session_of(const EvalOptions& o, const std::string& model, Workspace& workspace) {
  const BuildInfo build = build_info();
  const Scorer* scorer = workspace.scorer();
  return {{"scorer_digest", scorer == nullptr ? "" : scorer->context().domain().model_digest},
          {"scorer_weight_types", scorer == nullptr ? "" : scorer->context().domain().weight_types},
          {"compiler", build.compiler},
          {"build_type", build.build_type},
          {"ggml", build.ggml},
          {"cpu", build.cpu},
          {"cpu_flags", build.cpu_flags},
          {"threads", workspace.engine().decoder().n_threads()},
          {"layout", workspace.model().layout_text()},
          {"started", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))},
          {"context", workspace.engine().n_ctx()},
          {"model", model},
          {"tasks", o.questions.tasks},
          {"split", o.questions.split},
          {"files", o.questions.files},
          {"longbench", o.questions.longbench},
          {"corpus", o.questions.corpus},
          {"limit", o.questions.limits.n_samples},
          {"policies", o.policies},
          {"ratios", o.ratios},
          {"anchors", o.anchors}};
}

// A build of changed sources has no name of its own: what one of them said is not the next one's.
bool has_reference_cache(const EvalOptions& o) {
  return o.reference_limit_bytes > 0 && !build_info().commit.ends_with("+changes");
}

EvalPlan plan_of(const EvalOptions& o, std::vector<EvalSet> sets, const json& config,
                 const json& session) {
  EvalPlan plan;
  plan.sets = std::move(sets);
  plan.policies = o.policies;
  plan.ratios = o.ratios;
  for (const std::string& name : o.anchors) {
    if (const std::optional<AnchorKind> kind = anchor_from_name(name))
      plan.anchors.push_back(*kind);
  }
  plan.policy_options = o.policy_options;
  plan.max_tokens = o.max_tokens;
  plan.seed = o.report.seed;
  if (has_reference_cache(o)) plan.reference_dir = eval_reference_dir();
  plan.reference_limit_bytes = o.reference_limit_bytes;
  for (const char* name : {"version", "commit"}) plan.machine += config.at(name).dump() + "\n";
  for (const char* name :
       {"compiler", "build_type", "cpu", "cpu_flags", "threads", "layout", "ggml"})
    plan.machine += session.at(name).dump() + "\n";
  return plan;
}

// Of the rows that were asked for, whenever they were measured.
void print_report(const Session& session, const EvalOptions& o, const std::set<RowKey>& planned,
                  const RunLog& log, json about) {
  std::vector<Measurement> rows;
  for (const auto& [key, measurement] : log.rows()) {
    if (planned.contains(key)) rows.push_back(measurement);
  }
  const std::vector<Group> groups = summarize(rows, o.report);
  if (session.json()) {
    about["rows"] = rows.size();
    about["rows_planned"] = planned.size();
    about["baseline"] = o.report.baseline;
    about["resamples"] = o.report.n_resamples;
    about["metrics"] = metrics_json();
    about["groups"] = report_json(groups);
    return session.print_json(about);
  }
  for (const Group& group : groups) session.print(group_text(group, o.report.baseline));
}

void eval(Session& session, EvalOptions o) {
  o.policies = policy_names(session, o);
  check(o);
  o.questions.tasks = task_names(o.questions);
  drop_repeats(o.policies);
  drop_repeats(o.anchors);
  drop_repeats(o.ratios);
  Questions questions = read_questions("eval", o.questions);
  for (const EvalSet& set : questions.sets) {
    if (set.samples.front().scoring == Scoring::kSummary && o.max_tokens < kSummaryTokens) {
      session.note(
          fmt::format("{}: answers of {} tokens cut summaries short - give --max-tokens {}",
                      set.task, o.max_tokens, kSummaryTokens));
    }
  }
  if (o.report.baseline == kFullPolicy || !contains(o.policies, o.report.baseline)) {
    session.note(
        fmt::format("no differences are shown: the baseline {} is not among the reuse "
                    "policies that are measured - name one of --policies with --baseline",
                    o.report.baseline));
  }

  StoreSettings settings;
  settings.name_space = kMeasureNameSpace;
  settings.leadin_tokens = o.leadin_tokens;
  const bool needs_scorer = std::any_of(o.policies.begin(), o.policies.end(), [&](const auto& p) {
    return Engine::needs_scorer(p, o.policy_options);
  });
  Workspace workspace(o.model, settings, needs_scorer);
  const std::string model = o.model.model.empty() ? settings.model : o.model.model;
  const json config = config_of(o, workspace.engine().domain(), settings, questions.corpus_digest);
  const json info = session_of(o, model, workspace);
  const EvalPlan plan = plan_of(o, std::move(questions.sets), config, info);
  const std::set<RowKey> planned = planned_rows(plan);
  RunLog log = o.out.empty() ? RunLog() : RunLog(o.out, {config, info});

  bool is_complete = false;
  {
    ProgressBar bar(session, "rows", planned.size(), ProgressBar::Unit::kItems);
    EvalHooks hooks;
    hooks.stop = session.stop_token();
    hooks.progress = [&bar](size_t n_done, const RowKey& key) {
      bar.update(n_done, fmt::format("{} {} {} {}", key.task, key.id, key.anchor, key.policy));
    };
    is_complete = run_eval(workspace.engine(), workspace.scorer(), plan, log, hooks);
  }
  print_report(session, o, planned, log,
               {{"complete", is_complete},
                {"config", config},
                {"config_digest", config_digest(config)},
                {"session", info}});
  if (!is_complete) {
    session.note(o.out.empty() ? "interrupted: the table has the rows that were ready; with --out "
                                 "FILE they would be kept"
                               : "interrupted: the same command goes on where this one stopped");
  }
}

void add_question_options(CLI::App& app, EvalOptions& o) {
  app.add_option("--data", o.questions.data,
                 "Folder with the files of the tasks, or with the folders that they are in");
  app.add_option("--tasks", o.questions.tasks, task_help())->delimiter(',');
  app.add_option("--split", o.questions.split, "Which file of each task")->capture_default_str();
  app.add_option("--file", o.questions.files,
                 "JSONL file of questions, a task of its own; may be repeated");
  app.add_option("--longbench", o.questions.longbench,
                 "JSONL file of LongBench's form, a task with the name of its data set; may be "
                 "repeated");
  app.add_option("--limit", o.questions.limits.n_samples, "First questions of each task; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--passages", o.questions.limits.n_passages,
                 "Most passages of a question, supporting ones first; 0: all")
      ->check(CLI::NonNegativeNumber);
  o.questions.add_chunking_to(app);
  o.questions.add_retrieval_to(app);
}

void add_choice_options(CLI::App& app, EvalOptions& o) {
  app.add_option("--policies", o.policies, "Policies beside full prefill, or 'all'")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option(
         "--ratios", o.ratios,
         "Shares of reused tokens that are recomputed, 0..1: these alone, whatever 'tessera "
         "tune' found")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--anchors", o.anchors, "What stood before the chunks when they were computed")
      ->delimiter(',')
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}))
      ->capture_default_str();
  app.add_option("--leadin-tokens", o.leadin_tokens, "Length of the lead-in")
      ->check(CLI::Range(1, kMaxLeadinTokens))
      ->capture_default_str();
  add_policy_options(app, o.policy_options);
}

void add_report_options(CLI::App& app, EvalOptions& o) {
  app.add_option("--out", o.out,
                 "JSONL file that keeps a row per question and policy; a run that was stopped goes "
                 "on from it");
  app.add_option("--reference-limit", o.reference_limit_bytes,
                 "Bytes of full prefill's answers kept for later runs, as in 4GB; 0: none")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-tokens", o.max_tokens, "Longest answer")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--baseline", o.report.baseline,
                 "Policy that the others' differences are taken from, question by question")
      ->capture_default_str();
  app.add_option("--resamples", o.report.n_resamples, "Of the bootstrap intervals")
      ->check(CLI::Range(100, 20000))
      ->capture_default_str();
  app.add_option("--seed", o.report.seed, "Of the intervals, and of the policy 'random'")
      ->capture_default_str();
}

}  // namespace

void add_eval(CLI::App& app, Session& session) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* sub = app.add_subcommand(
      "eval", "Compare reuse policies with full prefill on questions whose answers are known");
  add_question_options(*sub, *options);
  add_choice_options(*sub, *options);
  add_report_options(*sub, *options);
  options->model.add_to(*sub);
  sub->callback([options, &session] { eval(session, *options); });
}

}  // namespace tessera
