#pragma once
// What `tune` was asked for and has found, and how it is shown. Not thread-safe.
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "eval/runner.h"
#include "eval/tuning.h"
#include "tessera/command.h"
#include "tessera/model_profile.h"
#include "tessera/question_sets.h"
#include "tessera/workspace.h"

namespace tessera {

// The ratios of a policy, and of soft matches those below beta, which are measured.
inline constexpr std::array kTuneRatios = {0.02, 0.05, 0.08, 0.12, 0.15, 0.2, 0.3};
inline constexpr std::array kTuneAlphas = {0.0, 0.02, 0.04, 0.08, 0.12};

// In place of a policy's name: what it would decide is left as it is.
inline constexpr const char* kNothing = "none";

// What `tune` is asked for.
struct TuneOptions {
  ModelOptions model;
  QuestionOptions questions = {.split = "tune", .limits = {.n_samples = 40, .n_passages = 6}};
  std::vector<std::string> policies = {"adacache", std::string(kDefaultPolicy)};  // may be empty
  std::string adaptive_policy = "adacache";  // kNothing: it is not tuned
  std::optional<double> max_kl, max_f1_loss;
  int32_t max_tokens = 32;
  std::string out;
  bool is_dry = false;

  LossMetric metric() const { return max_kl ? LossMetric::kKl : LossMetric::kF1; }
  double bound() const { return max_kl ? *max_kl : max_f1_loss.value_or(0); }
  // By F1 alone: full prefill over all passages is no truth about fewer of them.
  bool tunes_adaptive() const { return max_f1_loss && adaptive_policy != kNothing; }
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

size_t count_questions(const std::vector<EvalSet>& sets);

nlohmann::json to_json(const TuneOptions& options, const Tuned& tuned);

// To stdout; they throw as Session::print().
void print_tables(const Session& session, const TuneOptions& options, const Tuned& tuned);
// How many prefills a run takes from the start, and what they are made of.
void print_cost(const Session& session, const TuneOptions& options,
                const std::vector<EvalSet>& sets);

}  // namespace tessera
