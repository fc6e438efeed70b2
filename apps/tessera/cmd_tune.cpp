// Finds the settings of reuse that lose no more than a stated bound, and keeps them in the model's
// profile: docs/TUNING.md.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "catalog/catalog.h"
#include "eval/run_log.h"
#include "eval/runner.h"
#include "eval/tuning.h"
#include "eval/tuning_run.h"
#include "tessera/build_info.h"
#include "tessera/command.h"
#include "tessera/format.h"
#include "tessera/model_profile.h"
#include "tessera/question_sets.h"
#include "tessera/tune_report.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kCommand = "tune";
constexpr const char* kNameSpace = "tessera-tune";
constexpr const char* kAdaCache = "adacache";
constexpr std::array kLambdas = {0.0, 0.25, 0.5, 0.75, 1.0};
// A mean over fewer questions moves with each of them.
constexpr size_t kEnoughQuestions = 20;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidRequest, what); }

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_policy(const std::string& name) {
  make_policy(name, {});
  if (reads_ratio(name, {})) return;
  refuse(
      fmt::format("tune - policy {} has no ratio - there is nothing to tune - leave it out", name));
}

// A wrong name is said before what is missing: the next start would only meet it then.
void check_names(const TuneOptions& o) {
  check_questions(kCommand, o.questions);
  for (const std::string& name : o.policies) check_policy(name);
  if (o.adaptive_policy != kNothing) make_policy(o.adaptive_policy, {});
  if (!o.is_dry && !o.model.model.empty()) resolve_model(o.model.model);
}

void check_given(const TuneOptions& o) {
  if (!o.max_kl && !o.max_f1_loss) {
    refuse(
        "tune - no bound was given - what may be lost is yours to say - give --max-kl NATS or "
        "--max-f1-loss POINTS, as in 0.02");
  }
  if (o.policies.empty() && !o.tunes_adaptive()) {
    refuse(
        "tune - neither a ratio nor adaptive context is to be tuned - nothing is left to do - name "
        "--policies, or give --max-f1-loss without --adaptive-policy none");
  }
  if (o.out.empty() && !o.is_dry)
    refuse("tune - needs --out DIR - it keeps what was measured, to go on after a stop");
}

// What all of a folder must agree in.
json config_of(const TuneOptions& o, Workspace& workspace, const StoreSettings& settings) {
  const Engine& engine = workspace.engine();
  const BuildInfo build = build_info();
  json out = {{"version", build.version},
              {"commit", build.commit},
              {"model_digest", engine.domain().model_digest},
              {"weight_types", engine.domain().weight_types},
              {"sink_layer", workspace.profile().sink_layer.value_or(-1)},
              {"anchor", anchor_name(settings.anchor)},
              {"leadin_tokens", settings.leadin_tokens},
              {"max_tokens", o.max_tokens},
              {"passages", o.questions.limits.n_passages}};
  if (o.questions.chunk_tokens > 0) out["chunk_tokens"] = o.questions.chunk_tokens;
  return out;
}

EvalPlan ratio_plan(const TuneOptions& o, std::vector<EvalSet> sets, const json& config,
                    const StoreSettings& settings) {
  const BuildInfo build = build_info();
  EvalPlan plan;
  plan.sets = std::move(sets);
  plan.policies = o.policies;
  plan.ratios.assign(kTuneRatios.begin(), kTuneRatios.end());
  plan.anchors = {settings.anchor};
  plan.max_tokens = o.max_tokens;
  // A build of changed sources has no name of its own, as in `eval`.
  if (!build.commit.ends_with("+changes")) plan.reference_dir = eval_reference_dir();
  plan.machine =
      fmt::format("tune\n{}\n{}\n{}\n{}\n{}\n{}", config.dump(), build.compiler, build.build_type,
                  build.ggml, build.cpu, fmt::join(build.cpu_flags, " "));
  return plan;
}

double loss_of(LossMetric metric, const Measurement& full, const Measurement& row) {
  return metric == LossMetric::kKl ? row.kl : full.f1 - row.f1;
}

// Of the rows of `policy` that the plan asks for.
std::vector<GridPoint> ratio_points(const std::set<RowKey>& planned, const RunLog& log,
                                    const std::string& policy, LossMetric metric) {
  std::map<std::pair<std::string, std::string>, size_t> questions;  // in the order of the rows
  std::vector<GridPoint> points;
  for (const RowKey& key : planned) {
    if (key.policy != policy) continue;
    const Measurement& row = log.rows().at(key);
    const Measurement& full = log.rows().at(full_key(key.task, key.id));
    const auto question = questions.try_emplace({key.task, key.id}, questions.size()).first;
    points.push_back({key.ratio, loss_of(metric, full, row),
                      (row.account.rows() + row.probe_rows) / row.account.total(),
                      question->second});
  }
  return points;
}

// The measuring of one run, stage by stage.
class Tuning {
 public:
  Tuning(Session& session, const TuneOptions& options, Workspace& workspace,
         const StoreSettings& settings, std::vector<EvalSet> sets)
      : session_(session),
        o_(options),
        workspace_(workspace),
        config_(config_of(options, workspace, settings)),
        plan_(ratio_plan(options, std::move(sets), config_, settings)),
        log_(fs::path(options.out) / "ratios.jsonl",
             {config_, {{"split", options.questions.split}, {"tasks", task_names()}}},
             "give another folder to --out"),
        points_(fs::path(options.out) / "points.jsonl") {
    tuned_.profile = workspace.profile();
  }

  const Tuned& run() {
    const bool has_adacache = contains(o_.policies, kAdaCache);
    if (has_adacache) check_lengths_in_company();
    if (o_.policies.empty()) {
      check_lengths(workspace_.engine(), plan_.sets);  // else the first stage does
    } else {
      ratio_stage();
    }
    if (has_adacache) alpha_stage();
    if (o_.tunes_adaptive()) adaptive_stage();
    return tuned_;
  }

  const std::string& digest() const { return workspace_.engine().domain().model_digest; }

 private:
  // What is being measured.
  struct Stage {
    const char* name;
    size_t number;  // counted from 1
    size_t n_all;
    const char* unit;
    size_t n_done = 0;
  };

  // What `measure` gives for a TuningRun under `policy`.
  template <typename Measure>
  auto measured(Stage stage, const std::string& policy, const Measure& measure) {
    const TuningInputs inputs = inputs_for(policy);
    ProgressBar bar(session_, stage.name, stage.n_all, ProgressBar::Unit::kItems);
    TuningHooks hooks;
    hooks.stop = session_.stop_token();
    hooks.progress = [&bar, &stage](size_t n_done, std::string_view id) {
      stage.n_done = n_done;
      bar.update(n_done, id);
    };
    TuningRun run(workspace_.engine(), workspace_.store(), inputs, points_, hooks);
    try {
      return measure(run);
    } catch (const Error& error) {  // what stopped knows nothing of the other stages
      if (error.code() != ErrorCode::kCancelled) throw;
      say_cancelled(stage);
    }
  }

  size_t n_stages() const {
    return (o_.policies.empty() ? size_t{0} : size_t{1}) +
           (contains(o_.policies, kAdaCache) ? 1 : 0) + (o_.tunes_adaptive() ? 1 : 0);
  }

  [[noreturn]] void say_cancelled(const Stage& stage) const {
    throw Error(ErrorCode::kCancelled,
                fmt::format("cancelled in part {} of {}: {}, {} of {} done - what was measured is "
                            "kept in {} - the same command goes on there",
                            stage.number, n_stages(), stage.name, stage.n_done,
                            counted(stage.n_all, stage.unit), o_.out));
  }

  // A question that does not fit in the second stage must not cost the first.
  void check_lengths_in_company() {
    const TuningInputs inputs = inputs_for(kAdaCache);
    TuningRun(workspace_.engine(), workspace_.store(), inputs, points_, {}).check_lengths();
  }

  void ratio_stage() {
    const std::set<RowKey> planned = planned_rows(plan_);
    Stage stage = {"ratios", 1, planned.size(), "row"};
    {
      ProgressBar bar(session_, stage.name, stage.n_all, ProgressBar::Unit::kItems);
      EvalHooks hooks;
      hooks.stop = session_.stop_token();
      hooks.progress = [&bar, &stage](size_t n_done, const RowKey& key) {
        stage.n_done = n_done;
        bar.update(n_done, fmt::format("{} {} {}", key.id, key.policy, key.ratio));
      };
      if (!run_eval(workspace_.engine(), workspace_.scorer(), plan_, log_, hooks))
        say_cancelled(stage);
    }
    for (const std::string& policy : o_.policies) {
      const std::vector<GridPoint> points = ratio_points(planned, log_, policy, o_.metric());
      choose_ratio(policy, points);
      tuned_.ratios.emplace_back(policy, grid_lines(points));
    }
  }

  void choose_ratio(const std::string& policy, const std::vector<GridPoint>& points) {
    ModelProfile& profile = tuned_.profile;
    const std::string name = ratio_part(policy);
    // What an earlier run has chosen under another bound must not stand for this one.
    merge({}, {name}, profile);
    tuned_.parts.insert(name);
    const std::optional<GridLine> chosen = smallest_within(grid_lines(points), o_.bound());
    if (!chosen) {
      profile.unmet[name] = o_.bound();
      return session_.note(
          fmt::format("{}: no ratio up to {} loses as little as {} - it stays "
                      "untuned - allow more, or tune another policy",
                      policy, kTuneRatios.back(), o_.bound()));
    }
    profile.tuned[name] = part(*chosen, points);
    if (policy != kAdaCache) {
      profile.ratios[policy] = chosen->setting;
      return;
    }
    const PolicyOptions options = {.recompute_ratio = chosen->setting};
    profile.adacache = {.alpha = options.alpha(), .beta = chosen->setting};
  }

  void alpha_stage() {
    std::optional<ModelProfile::AdaCache>& adacache = tuned_.profile.adacache;
    merge({}, {kAlphaPart}, tuned_.profile);
    tuned_.parts.insert(kAlphaPart);
    if (!adacache) return;
    std::vector<double> alphas;
    for (const double alpha : kTuneAlphas) {
      if (alpha < adacache->beta) alphas.push_back(alpha);
    }
    alphas.push_back(adacache->beta);  // where soft matches are worth no more than independent ones

    const std::vector<SoftPoint> measured_points =
        measured({"alpha", 2, count_questions(plan_.sets), "question"}, kAdaCache,
                 [&](TuningRun& run) { return run.soft(alphas); });
    std::vector<GridPoint> points;
    for (const SoftPoint& p : measured_points) {
      if (p.alpha == alphas.front()) {
        tuned_.n_soft += static_cast<size_t>(p.n_soft);
        tuned_.n_chunks += static_cast<size_t>(p.n_chunks);
      }
      const double loss = o_.metric() == LossMetric::kKl ? p.kl : p.f1_loss;
      if (p.n_soft > 0) points.push_back({p.alpha, loss, p.rows_share, p.question});
    }
    tuned_.alphas = grid_lines(points);
    if (points.empty()) {
      return session_.note(
          "alpha: no chunk was a soft match - it stays untuned - give more questions, and of more "
          "passages");
    }
    if (const auto chosen = smallest_within(tuned_.alphas, o_.bound())) {
      adacache->alpha = chosen->setting;
      tuned_.profile.tuned[kAlphaPart] = part(*chosen, points);
      return;
    }
    adacache->alpha = adacache->beta;
    tuned_.profile.unmet[kAlphaPart] = o_.bound();
    session_.note(
        fmt::format("alpha: none loses as little as {} over soft matches - it stays "
                    "untuned, at beta",
                    o_.bound()));
  }

  void adaptive_stage() {
    merge({}, {kAdaptivePart}, tuned_.profile);
    tuned_.parts.insert(kAdaptivePart);
    const std::vector<AdaptiveQuestion> questions =
        measured({"adaptive context", n_stages(), count_questions(plan_.sets), "question"},
                 o_.adaptive_policy, [](TuningRun& run) { return run.adaptive(); });
    if (questions.empty()) {
      return session_.note(
          "adaptive context: no question has two passages or more - it stays "
          "untuned - raise --passages");
    }
    const int32_t n_vocab = workspace_.engine().decoder().config().n_vocab;
    tuned_.kl_scale = kl_scale_of(questions);
    const std::vector<AdaptiveLine> grid =
        adaptive_grid(questions, kLambdas, tuned_.kl_scale, n_vocab);
    tuned_.front = pareto_front(grid);
    tuned_.adaptive = choose_adaptive(grid, o_.adaptive_bound());
    if (!tuned_.adaptive) {
      tuned_.profile.unmet[kAdaptivePart] = o_.adaptive_bound();
      return session_.note(
          fmt::format("adaptive context: nothing saves rows and loses at most {} "
                      "of F1 - it stays untuned - allow more with --max-f1-loss",
                      o_.adaptive_bound()));
    }
    const AdaptiveLine& chosen = *tuned_.adaptive;
    tuned_.profile.adaptive = {.lambda = chosen.lambda,
                               .kl_scale = tuned_.kl_scale,
                               .threshold = chosen.threshold,
                               .policy = o_.adaptive_policy,
                               .step = 1};  // as it was measured
    TunedPart about = part({.loss = chosen.f1_loss, .n = questions.size()}, {});
    about.loss = cross_fitted_loss(
        questions, {.lambdas = kLambdas, .max_f1_loss = o_.adaptive_bound(), .n_vocab = n_vocab});
    about.metric = loss_metric_name(LossMetric::kF1);
    about.bound = o_.adaptive_bound();
    tuned_.profile.tuned[kAdaptivePart] = std::move(about);
  }

  TuningInputs inputs_for(const std::string& policy) const {
    TuningInputs inputs;
    inputs.sets = plan_.sets;
    inputs.policy = policy;
    apply(tuned_.profile, policy, {}, inputs.policy_options);
    inputs.anchor = plan_.anchors.front();
    inputs.max_tokens = o_.max_tokens;
    inputs.config = config_digest(config_);
    return inputs;
  }

  // `points`: what `chosen` was chosen from.
  TunedPart part(const GridLine& chosen, const std::vector<GridPoint>& points) const {
    TunedPart out;
    out.date = fmt::format("{:%F}", fmt::gmtime(std::chrono::system_clock::now()));
    out.tasks = task_names();
    out.data_digest = data_digest(plan_.sets);
    out.metric = loss_metric_name(o_.metric());
    out.bound = o_.bound();
    out.loss = cross_fitted_loss(points, o_.bound());
    out.loss_in_sample = chosen.loss;
    out.n = static_cast<int32_t>(chosen.n);
    return out;
  }

  std::vector<std::string> task_names() const {
    std::vector<std::string> out;
    out.reserve(plan_.sets.size());
    for (const EvalSet& set : plan_.sets) out.push_back(set.task);
    return out;
  }

  Session& session_;
  const TuneOptions& o_;
  Workspace& workspace_;
  json config_;
  EvalPlan plan_;
  RunLog log_;  // its lock keeps other programs out of the folder
  PointLog points_;
  Tuned tuned_;
};

// F1 says nothing of a summary.
void keep_short_answers(const Session& session, std::vector<EvalSet>& sets) {
  std::erase_if(sets, [&session](const EvalSet& set) {
    if (set.samples.front().scoring == Scoring::kShortAnswer) return false;
    session.note(
        fmt::format("{} is left out: its answers are not short ones, and F1 is of those - "
                    "it can be tuned by --max-kl alone",
                    set.task));
    return true;
  });
  if (sets.empty())
    refuse(
        "tune - no question has a short answer - --max-f1-loss has nothing to go by - give other "
        "tasks, or --max-kl alone");
}

void tune(Session& session, TuneOptions o) {
  if (o.policies == std::vector<std::string>{kNothing}) o.policies.clear();
  // Slips are said before a model loads.
  check_names(o);
  std::vector<EvalSet> sets = read_sets(kCommand, o.questions);
  check_given(o);
  if (o.max_f1_loss) keep_short_answers(session, sets);
  rank_passages(sets);
  if (const size_t n = count_questions(sets); n < kEnoughQuestions) {
    session.note(
        fmt::format("only {}: a choice by fewer than {} is not to be relied on - give more with "
                    "--limit or --file",
                    counted(n, "question"), kEnoughQuestions));
  }
  if (o.is_dry) return print_cost(session, o, sets);
  make_private_dir(o.out);
  StoreSettings settings;
  settings.name_space = kNameSpace;
  o.model.in_memory = true;  // the store is emptied between questions
  std::vector<std::string> used = o.policies;
  if (o.tunes_adaptive()) used.push_back(o.adaptive_policy);
  const bool needs_scorer = std::any_of(used.begin(), used.end(), [](const std::string& policy) {
    return Engine::needs_scorer(policy, {});
  });
  Workspace workspace(o.model, settings, needs_scorer);
  Tuning tuning(session, o, workspace, settings, std::move(sets));
  Tuned tuned = tuning.run();
  ModelProfile profile = read_profile(tuning.digest());  // perhaps newer in other parts
  merge(tuned.profile, tuned.parts, profile);
  write_profile(tuning.digest(), profile);
  tuned.profile = std::move(profile);

  const std::string file = profile_file(tuning.digest()).string();
  if (session.json()) {
    json report = to_json(o, tuned);
    report["profile"] = file;
    return session.print_json(report);
  }
  print_tables(session, o, tuned);
  session.note(fmt::format("written to {}", file));
}

void add_bound_options(CLI::App& app, TuneOptions& o) {
  app.add_option("--max-kl", o.max_kl,
                 "Most mean KL to full prefill that a ratio may cost, nats a token")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--max-f1-loss", o.max_f1_loss,
                 "Most F1 (0..1) that adaptive context, which is tuned only with it, may lose "
                 "against all passages; without --max-kl also what a ratio may lose against full "
                 "prefill")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--policies", o.policies, "Policies whose ratio is tuned; none: no ratio is")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--adaptive-policy", o.adaptive_policy,
                 "Policy under which adaptive context is tuned; none: it is not")
      ->capture_default_str();
}

}  // namespace

void add_tune(CLI::App& app, Session& session) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* sub = app.add_subcommand(
      "tune", "Find the settings of reuse that lose no more than a bound; kept for the model");
  options->questions.add_to(*sub);
  add_bound_options(*sub, *options);
  sub->add_option("--out", options->out,
                  "Folder that keeps what was measured; a run that was stopped goes on from it");
  sub->add_option("--max-tokens", options->max_tokens, "Longest answer")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  sub->add_flag("--dry-run", options->is_dry, "Say how many prefills it takes, and end");
  options->model.add_to(*sub);
  sub->callback([options, &session] { tune(session, *options); });
}

}  // namespace tessera
