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
#include "eval/run_log.h"
#include "eval/runner.h"
#include "eval/tuning.h"
#include "eval/tuning_run.h"
#include "tessera/build_info.h"
#include "tessera/command.h"
#include "tessera/format.h"
#include "tessera/model_profile.h"
#include "tessera/question_sets.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kCommand = "tune";
constexpr const char* kNameSpace = "tessera-tune";
constexpr const char* kAdaCache = "adacache";
constexpr const char* kNoAdaptive = "none";
constexpr std::array kRatios = {0.02, 0.05, 0.08, 0.12, 0.15, 0.2, 0.3};
constexpr std::array kAlphas = {0.0, 0.02, 0.04, 0.08, 0.12};
constexpr std::array kLambdas = {0.0, 0.25, 0.5, 0.75, 1.0};
// They recompute nothing that was loaded, or everything.
constexpr std::array<std::string_view, 3> kWithoutRatio = {"full", "prefix", "reuse"};

struct TuneOptions {
  ModelOptions model;
  QuestionOptions questions = {.split = "tune", .limits = {.n_samples = 40, .n_passages = 6}};
  std::vector<std::string> policies = {kAdaCache, std::string(kDefaultPolicy)};
  std::string adaptive_policy = kAdaCache;
  std::optional<double> max_kl, max_f1_loss;
  int32_t max_tokens = 32;
  std::string out;
  bool is_dry = false;

  LossMetric metric() const { return max_kl ? LossMetric::kKl : LossMetric::kF1; }
  double bound() const { return max_kl ? *max_kl : max_f1_loss.value_or(0); }
  // By F1 alone: full prefill over all passages is no truth about fewer of them.
  bool tunes_adaptive() const { return max_f1_loss && adaptive_policy != kNoAdaptive; }
  double adaptive_bound() const { return max_f1_loss.value_or(0); }
};

// What was measured and chosen.
struct Tuned {
  std::vector<std::pair<std::string, std::vector<GridLine>>> ratios;  // by policy
  std::vector<GridLine> alphas;
  size_t n_soft = 0, n_chunks = 0;  // over the questions, each counted once
  double kl_scale = 0;
  std::vector<AdaptiveLine> front;
  std::optional<AdaptiveLine> adaptive;
  ModelProfile profile;
  std::set<std::string> parts;  // of the profile, that this run has tuned or failed to
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidRequest, what); }

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_policy(const std::string& name) {
  make_policy(name, {});
  if (std::find(kWithoutRatio.begin(), kWithoutRatio.end(), name) == kWithoutRatio.end()) return;
  refuse(
      fmt::format("tune - policy {} has no ratio - there is nothing to tune - leave it out", name));
}

// Slips are said before a model loads.
void check(const TuneOptions& o) {
  check_questions(kCommand, o.questions);
  if (!o.max_kl && !o.max_f1_loss) {
    refuse(
        "tune - no bound was given - what may be lost is yours to say - give --max-kl NATS or "
        "--max-f1-loss POINTS, as in 0.02");
  }
  if (o.out.empty() && !o.is_dry)
    refuse("tune - needs --out DIR - it keeps what was measured, to go on after a stop");
  for (const std::string& name : o.policies) check_policy(name);
  if (o.tunes_adaptive()) make_policy(o.adaptive_policy, {});
}

// What all of a folder must agree in.
json config_of(const TuneOptions& o, const Engine& engine, const StoreSettings& settings) {
  const BuildInfo build = build_info();
  return {{"version", build.version},
          {"commit", build.commit},
          {"model_digest", engine.domain().model_digest},
          {"weight_types", engine.domain().weight_types},
          {"sink_layer", read_profile(engine.domain().model_digest).sink_layer.value_or(-1)},
          {"anchor", anchor_name(settings.anchor)},
          {"leadin_tokens", settings.leadin_tokens},
          {"max_tokens", o.max_tokens},
          {"passages", o.questions.limits.n_passages}};
}

EvalPlan ratio_plan(const TuneOptions& o, std::vector<EvalSet> sets, const json& config,
                    const StoreSettings& settings) {
  const BuildInfo build = build_info();
  EvalPlan plan;
  plan.sets = std::move(sets);
  plan.policies = o.policies;
  plan.ratios.assign(kRatios.begin(), kRatios.end());
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
        config_(config_of(options, workspace.engine(), settings)),
        plan_(ratio_plan(options, std::move(sets), config_, settings)),
        log_(fs::path(options.out) / "ratios.jsonl",
             {config_, {{"split", options.questions.split}, {"tasks", task_names()}}}),
        points_(fs::path(options.out) / "points.jsonl") {
    tuned_.profile = read_profile(digest());
  }

  const Tuned& run() {
    const bool has_adacache = contains(o_.policies, kAdaCache);
    if (has_adacache) check_lengths();
    ratio_stage();
    if (has_adacache) alpha_stage();
    if (o_.tunes_adaptive()) adaptive_stage();
    return tuned_;
  }

  const std::string& digest() const { return workspace_.engine().domain().model_digest; }

 private:
  // What `measure` gives for a TuningRun under `policy`.
  template <typename Measure>
  auto measured(const char* label, const std::string& policy, const Measure& measure) {
    const TuningInputs inputs = inputs_for(policy);
    ProgressBar bar(session_, label, n_questions(), ProgressBar::Unit::kItems);
    TuningHooks hooks;
    hooks.stop = session_.stop_token();
    hooks.progress = [&bar](size_t n_done, std::string_view id) { bar.update(n_done, id); };
    TuningRun run(workspace_.engine(), workspace_.store(), inputs, points_, hooks);
    return measure(run);
  }

  // A question that does not fit in the second stage must not cost the first.
  void check_lengths() {
    const TuningInputs inputs = inputs_for(kAdaCache);
    TuningRun(workspace_.engine(), workspace_.store(), inputs, points_, {}).check_lengths();
  }

  void ratio_stage() {
    const std::set<RowKey> planned = planned_rows(plan_);
    {
      ProgressBar bar(session_, "ratios", planned.size(), ProgressBar::Unit::kItems);
      EvalHooks hooks;
      hooks.stop = session_.stop_token();
      hooks.progress = [&bar](size_t n_done, const RowKey& key) {
        bar.update(n_done, fmt::format("{} {} {}", key.id, key.policy, key.ratio));
      };
      if (!run_eval(workspace_.engine(), workspace_.scorer(), plan_, log_, hooks)) {
        throw Error(ErrorCode::kCancelled,
                    "cancelled - finished rows are kept - the same command goes on there");
      }
    }
    for (const std::string& policy : o_.policies) {
      const std::vector<GridPoint> points = ratio_points(planned, log_, policy, o_.metric());
      choose_ratio(policy, points);
      tuned_.ratios.emplace_back(policy, grid_lines(points));
    }
  }

  void choose_ratio(const std::string& policy, const std::vector<GridPoint>& points) {
    ModelProfile& profile = tuned_.profile;
    const bool is_adacache = policy == kAdaCache;
    const std::string name = is_adacache ? kBetaPart : policy;
    // What an earlier run has chosen under another bound must not stand for this one.
    merge({}, {name}, profile);
    tuned_.parts.insert(name);
    const std::optional<GridLine> chosen = smallest_within(grid_lines(points), o_.bound());
    if (!chosen) {
      profile.unmet[name] = o_.bound();
      return session_.note(
          fmt::format("{}: no ratio up to {} loses as little as {} - it stays "
                      "untuned - allow more, or tune another policy",
                      policy, kRatios.back(), o_.bound()));
    }
    profile.tuned[name] = part(*chosen, points);
    if (!is_adacache) {
      profile.ratios[policy] = chosen->setting;
      return;
    }
    const double alpha = std::min(PolicyOptions{}.soft_ratio, chosen->setting);
    profile.adacache = {.alpha = alpha, .beta = chosen->setting};
  }

  void alpha_stage() {
    std::optional<ModelProfile::AdaCache>& adacache = tuned_.profile.adacache;
    merge({}, {kAlphaPart}, tuned_.profile);
    tuned_.parts.insert(kAlphaPart);
    if (!adacache) return;
    std::vector<double> alphas;
    for (const double alpha : kAlphas) {
      if (alpha < adacache->beta) alphas.push_back(alpha);
    }
    alphas.push_back(adacache->beta);  // where soft matches are worth no more than independent ones

    const std::vector<SoftPoint> measured_points =
        measured("alpha", kAdaCache, [&](TuningRun& run) { return run.soft(alphas); });
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
        measured("adaptive", o_.adaptive_policy, [](TuningRun& run) { return run.adaptive(); });
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

  size_t n_questions() const {
    size_t n = 0;
    for (const EvalSet& set : plan_.sets) n += set.samples.size();
    return n;
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

json to_json(const std::vector<GridLine>& lines) {
  json out = json::array();
  for (const GridLine& l : lines) {
    out.push_back(
        {{"setting", l.setting}, {"loss", l.loss}, {"rows_share", l.rows_share}, {"n", l.n}});
  }
  return out;
}

json to_json(const AdaptiveLine& l) {
  return {{"lambda", l.lambda}, {"threshold", l.threshold},   {"passages", l.passages},
          {"f1", l.f1},         {"rows_share", l.rows_share}, {"f1_loss", l.f1_loss}};
}

json to_json(const TuneOptions& o, const Tuned& tuned) {
  json ratios = json::object(), front = json::array();
  for (const auto& [policy, lines] : tuned.ratios) ratios[policy] = to_json(lines);
  for (const AdaptiveLine& line : tuned.front) front.push_back(to_json(line));
  json out = {{"metric", loss_metric_name(o.metric())},
              {"bound", o.bound()},
              {"ratios", ratios},
              {"alpha", to_json(tuned.alphas)},
              {"soft_chunks", tuned.n_soft},
              {"chunks", tuned.n_chunks},
              {"kl_scale", tuned.kl_scale},
              {"pareto", front},
              {"chosen", to_json(tuned.profile)}};
  if (tuned.adaptive) out["adaptive"] = to_json(*tuned.adaptive);
  return out;
}

// What a table's choice loses on questions that it was not made on.
std::string held_out_text(const ModelProfile& profile, const std::string& part) {
  const auto tuned = profile.tuned.find(part);
  const std::optional<double> loss =
      tuned == profile.tuned.end() ? std::nullopt : tuned->second.loss;
  if (!loss) return {};
  return fmt::format("the choice loses {:.4f} on questions that it was not made on\n", *loss);
}

// `chosen`: its line is marked.
std::string grid_text(const std::vector<GridLine>& lines, const char* setting, LossMetric metric,
                      std::optional<double> chosen) {
  Table table(
      {{setting, Table::Align::kRight},
       {metric == LossMetric::kKl ? "KL in sample" : "F1 loss in sample", Table::Align::kRight},
       {"rows / N", Table::Align::kRight},
       {"n", Table::Align::kRight},
       {""}});
  for (const GridLine& l : lines) {
    table.add_row({fmt::format("{:.4g}", l.setting), fmt::format("{:.4f}", l.loss),
                   fmt::format("{:.3f}", l.rows_share), fmt::format("{}", l.n),
                   chosen == l.setting ? "chosen" : ""});
  }
  return table.text();
}

std::string front_text(const Tuned& tuned) {
  Table table({{"lambda", Table::Align::kRight},
               {"tau", Table::Align::kRight},
               {"passages seen", Table::Align::kRight},
               {"rows / all at once", Table::Align::kRight},
               {"F1", Table::Align::kRight},
               {"F1 loss in sample", Table::Align::kRight},
               {""}});
  for (const AdaptiveLine& l : tuned.front) {
    const bool is_chosen = tuned.adaptive && tuned.adaptive->lambda == l.lambda &&
                           tuned.adaptive->threshold == l.threshold;
    table.add_row({fmt::format("{:.2f}", l.lambda), fmt::format("{:.4f}", l.threshold),
                   fmt::format("{:.2f}", l.passages), fmt::format("{:.3f}", l.rows_share),
                   fmt::format("{:.3f}", l.f1), fmt::format("{:.3f}", l.f1_loss),
                   is_chosen ? "chosen" : ""});
  }
  return table.text();
}

std::optional<double> chosen_ratio(const ModelProfile& profile, const std::string& policy) {
  if (!profile.tuned.contains(policy == kAdaCache ? kBetaPart : policy)) return std::nullopt;
  PolicyOptions options;
  apply(profile, policy, {}, options);
  return options.recompute_ratio;
}

void print_tables(const Session& session, const TuneOptions& o, const Tuned& tuned) {
  const ModelProfile& profile = tuned.profile;
  for (const auto& [policy, lines] : tuned.ratios) {
    const bool is_adacache = policy == kAdaCache;
    session.print(fmt::format("{}, ratio{}\n{}{}\n", policy, is_adacache ? " (beta)" : "",
                              grid_text(lines, "ratio", o.metric(), chosen_ratio(profile, policy)),
                              held_out_text(profile, is_adacache ? kBetaPart : policy)));
  }
  const std::optional<ModelProfile::AdaCache>& adacache = profile.adacache;
  if (adacache && !tuned.alphas.empty()) {
    std::optional<double> alpha;
    if (profile.tuned.contains(kAlphaPart)) alpha = adacache->alpha;
    session.print(fmt::format("{}, alpha at beta {:.4g}; {} of {} chunks were soft matches\n{}{}\n",
                              kAdaCache, adacache->beta, tuned.n_soft, tuned.n_chunks,
                              grid_text(tuned.alphas, "alpha", o.metric(), alpha),
                              held_out_text(profile, kAlphaPart)));
  }
  if (!tuned.front.empty()) {
    session.print(fmt::format(
        "adaptive context on {}, KL scale {:.4g} nats; what no other setting beats\n{}{}",
        o.adaptive_policy, tuned.kl_scale, front_text(tuned),
        held_out_text(profile, kAdaptivePart)));
  }
}

// Of a run from the start: how many of them are there already is known only with the model.
void print_cost(const Session& session, const TuneOptions& o, const std::vector<EvalSet>& sets) {
  const bool has_adacache = contains(o.policies, kAdaCache);
  size_t n_questions = 0, n_growing = 0, n_passages = 0;
  for (const EvalSet& set : sets) {
    for (const Sample& sample : set.samples) {
      ++n_questions;
      if (sample.passages.size() < 2) continue;
      ++n_growing;
      n_passages += sample.passages.size();
    }
  }
  const size_t n_soft = has_adacache ? n_growing : 0;
  const size_t n_adaptive = o.tunes_adaptive() ? n_growing : 0;
  // The passages' own KV costs about a full prefill of them, in every stage, and is read once; for
  // alpha half as many of other questions join them.
  const size_t full = 2 * n_questions + 5 * n_soft / 2 + n_adaptive;
  const size_t ratios = n_questions * (1 + o.policies.size() * kRatios.size());
  const size_t alphas = n_soft * (3 + kAlphas.size());  // the company, the grid, and beta
  const size_t adaptive = o.tunes_adaptive() ? 2 * n_adaptive + n_passages : 0;
  if (session.json()) {
    return session.print_json({{"questions", n_questions},
                               {"full_prefills", full},
                               {"reuse_prefills", ratios + alphas + adaptive}});
  }
  session.print(
      fmt::format("{} questions: at most {} full prefills and {} with reuse ({} ratios, {} alpha, "
                  "{} adaptive context); fewer where --out has some\n",
                  n_questions, full, ratios + alphas + adaptive, ratios, alphas, adaptive));
}

void tune(Session& session, TuneOptions o) {
  check(o);
  std::vector<EvalSet> sets = read_sets(kCommand, o.questions);
  rank_passages(sets);
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
  app.add_option("--policies", o.policies, "Policies whose ratio is tuned")
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
