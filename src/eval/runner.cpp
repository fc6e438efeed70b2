#include "eval/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text_util.h"
#include "engine/compare.h"
#include "eval/metrics.h"
#include "eval/stored_passages.h"

namespace tessera {
namespace {

constexpr uint64_t kReferenceFormat = 1;

// Rows of one sample in the order in which they are measured: full prefill, then all of an anchor.
std::vector<RowKey> rows_of(const EvalPlan& plan, const std::string& task, const Sample& sample) {
  std::vector<RowKey> out = {full_key(task, sample.id)};
  for (const AnchorKind anchor : plan.anchors) {
    for (const std::string& policy : plan.policies) {
      if (policy == kFullPolicy) continue;
      for (const double ratio : plan.ratios)
        out.push_back({task, sample.id, std::string(anchor_name(anchor)), policy, ratio});
    }
  }
  return out;
}

// The same draws for every anchor and ratio of a sample, others for the next sample.
uint64_t seed_for(const std::string& id, uint64_t seed) {
  Sha256 hash;
  hash.field("seed", seed);
  hash.field("sample", id);
  const Sha256Digest digest = hash.digest();
  uint64_t out = 0;
  std::memcpy(&out, digest.data(), sizeof(out));
  return out;
}

// 16 hex digits that tell one scorer from another; empty for none.
std::string scorer_digest(const Scorer* scorer) {
  constexpr size_t kDigits = 16;
  if (scorer == nullptr) return "";
  const KvDomain& domain = scorer->context().domain();
  Sha256 hash;
  hash.field("model", domain.model_digest);
  hash.field("weight types", domain.weight_types);
  return to_hex(hash.digest()).substr(0, kDigits);
}

struct Answered {
  Answer answer;
  std::vector<int32_t> tokens;  // that `logits` predict
  std::vector<float> logits;    // [rows, n_vocab]
  double gold_nll = 0;
};

// What the questions of a run share.
struct Shared {
  Engine& engine;
  Scorer* scorer;
  const EvalPlan& plan;
  const std::stop_token& stop;
  ReferenceCache references;
  std::string scorer_digest;
  bool is_warm = false;  // full prefill has run in this process
};

// One question under each policy of the plan.
class SampleRun {
 public:
  SampleRun(Shared& shared, const Sample& sample)
      : shared_(shared),
        engine_(shared.engine),
        plan_(shared.plan),
        stop_(shared.stop),
        sample_(sample),
        digest_(sample_digest(sample)),
        request_(request_of(sample)) {
    request_.max_tokens = plan_.max_tokens;
    gold_ = engine_.prompts().text_ids(" " + sample.answers.front());
    gold_.resize(std::min(gold_.size(), static_cast<size_t>(kCompareTokens)));
    // Written as gold answers are. A vocabulary that has no piece for a letter behind a space ends
    // with the letter's own: all of a question differ either way.
    for (size_t i = 0; i < sample.n_choices; ++i)
      letters_.push_back(engine_.prompts().text_ids(" " + choice_letter(i)).back());
  }

  RowInputs inputs(const std::string& policy) const {
    const bool is_scored = Engine::needs_scorer(policy, plan_.policy_options);
    return {digest_, is_scored ? shared_.scorer_digest : ""};
  }

  Measurement run(const RowKey& key) {
    const FullPrefill& full = reference();
    return key.policy == kFullPolicy ? full_measurement(key, full) : measurement(key, full);
  }

 private:
  const FullPrefill& reference() {
    if (!full_) full_ = full_prefill();
    return *full_;
  }

  Measurement full_measurement(const RowKey& key, const FullPrefill& full) const {
    Measurement out = scored(key, full, full.answer, full.logits);
    out.n_positions = static_cast<int32_t>(full.logits.size()) / n_vocab();
    out.gold_nll = full.gold_nll;
    out.ttft_ms = out.full_ttft_ms = full.ttft_ms;
    out.account.fresh = full.n_prompt_tokens;
    return out;
  }

  Measurement measurement(const RowKey& key, const FullPrefill& full) {
    Request request = request_;
    request.policy = key.policy;
    request.anchor = anchor_from_name(key.anchor).value_or(request.anchor);
    request.policy_options = plan_.policy_options;
    request.policy_options.recompute_ratio = key.ratio;
    request.policy_options.seed = seed_for(sample_.id, plan_.seed);
    if (prepared_ != key.anchor) prepare(request);
    prepared_ = key.anchor;

    const Answered answered = measure(request, &full.tokens);
    Measurement out = scored(key, full, answered.answer.text, answered.logits);
    const Distance distance = distance_between(full.logits, answered.logits, n_vocab());
    out.kl = distance.mean_kl;
    out.top1 = distance.top1;
    out.n_positions = distance.n_positions;
    out.gold_nll = answered.gold_nll;
    out.ttft_ms = answered.answer.timings.ttft_ms();
    out.full_ttft_ms = full.ttft_ms;
    out.account = answered.answer.account;
    out.probe_rows = answered.answer.probe_rows;
    out.scorer_rows = answered.answer.scorer_rows;
    return out;
  }

  // `logits`: [rows, n_vocab], of the answer's first position first.
  Measurement scored(const RowKey& key, const FullPrefill& full, const std::string& answer,
                     std::span<const float> logits) const {
    Measurement out;
    out.key = key;
    out.inputs = inputs(key.policy);
    out.answer = answer;
    out.f1 = token_f1(answer, sample_.answers);
    out.exact_match = is_exact_match(answer, sample_.answers) ? 1 : 0;
    out.full_f1 = token_f1(full.answer, sample_.answers);
    out.full_gold_nll = full.gold_nll;
    if (sample_.scoring == Scoring::kSummary) out.rouge_l = rouge_l(answer, sample_.answers);
    if (sample_.scoring == Scoring::kChoice) {
      const auto n = static_cast<size_t>(n_vocab());
      const size_t choice = likeliest_of(logits.first(n), letters_);
      out.accuracy = choice_letter(choice) == sample_.answers.front() ? 1 : 0;
    }
    return out;
  }

  // Logits are taken behind `forced`; null: behind the answer itself.
  Answered measure(const Request& request, const std::vector<int32_t>* forced) {
    Answered out;
    Prefilled prefilled = engine_.prefill(request, stop_);
    out.answer = engine_.generate(request, prefilled, {}, stop_);
    out.tokens = forced == nullptr ? out.answer.tokens : *forced;
    out.tokens.resize(std::min(out.tokens.size(), static_cast<size_t>(kCompareTokens)));
    out.logits = engine_.forced_logits(prefilled, out.tokens);
    const std::vector<float> behind_gold = engine_.forced_logits(prefilled, gold_);
    out.gold_nll = mean_nll(behind_gold, gold_, n_vocab());
    return out;
  }

  FullPrefill full_prefill() {
    const std::vector<int32_t> ids = engine_.prompt_of(request_).ids;
    const auto n_room = engine_.n_ctx() - static_cast<int32_t>(ids.size());
    const std::string key = reference_key(ids, n_room);
    if (std::optional<FullPrefill> kept = shared_.references.find(key, {n_vocab(), n_room}))
      return std::move(*kept);
    Request request = request_;
    request.policy = kFullPolicy;
    // The first of a process waits for memory and the weights: it is not counted.
    if (!shared_.is_warm) engine_.prefill(request, stop_);
    shared_.is_warm = true;
    Answered answered = measure(request, nullptr);
    FullPrefill out;
    out.answer = std::move(answered.answer.text);
    out.tokens = std::move(answered.tokens);
    out.logits = std::move(answered.logits);
    out.gold_nll = answered.gold_nll;
    out.ttft_ms = answered.answer.timings.ttft_ms();
    out.n_prompt_tokens = answered.answer.account.total();
    shared_.references.put(key, out);  // a refusal is logged, and costs only the next run
    return out;
  }

  // Hex, over everything that decides what full prefill says, and how fast.
  std::string reference_key(const std::vector<int32_t>& ids, int32_t n_room) const {
    const KvDomain& domain = engine_.domain();
    // Where the context ends early the answer does too.
    const int32_t n_useful = std::min(n_room, plan_.max_tokens + kCompareTokens);
    Sha256 hash;
    hash.field("format", kReferenceFormat);
    hash.field("model", domain.model_digest);
    hash.field("weight types", domain.weight_types);
    hash.field("tokenizer", domain.tokenizer_digest);
    hash.field("rope", domain.rope);
    hash.field("machine", plan_.machine);
    hash.field("max tokens", static_cast<uint64_t>(plan_.max_tokens));
    hash.field("room", static_cast<uint64_t>(n_useful));
    hash.field("prompt", std::as_bytes(std::span(ids)));
    hash.field("gold", std::as_bytes(std::span(gold_)));
    return to_hex(hash.digest());
  }

  void prepare(const Request& request) {
    if (prepared_.empty() && shared_.scorer != nullptr) {  // the scorer knows of no anchors
      for (const std::string& policy : plan_.policies)
        store_for_scorer(*shared_.scorer, request, sample_.id,
                         *make_policy(policy, request.policy_options), stop_);
    }
    store_passages(engine_, request, sample_.id, stop_);
  }

  int32_t n_vocab() const { return engine_.decoder().config().n_vocab; }

  Shared& shared_;
  Engine& engine_;
  const EvalPlan& plan_;
  const std::stop_token& stop_;
  const Sample& sample_;
  std::string digest_;
  Request request_;
  std::vector<int32_t> gold_;
  std::vector<int32_t> letters_;  // tokens of a choice's letters
  std::optional<FullPrefill> full_;
  std::string prepared_;  // the anchor whose chunks are in the store and were read
};

// Does `work`; its error names the question, and the options that may help.
template <typename Work>
void naming(const std::string& whose, std::string_view options, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{} - {} ({}), or leave the question out", whose,
                                          error.what(), options));
  }
}

template <typename Wanted>
bool has_evidence(const EvalPlan& plan, Wanted wanted) {
  return std::ranges::any_of(plan.policies, [&](const std::string& policy) {
    return wanted(make_policy(policy, plan.policy_options)->evidence());
  });
}

// `where` and `options` are for the error of `work`, which names the question.
template <typename Work>
void for_each_request(const std::vector<EvalSet>& sets, std::string_view where,
                      std::string_view options, const Work& work) {
  const auto do_named = [&](const EvalSet& set, const Sample& sample) {
    naming(fmt::format("question {} of {}{}", quote(sample.id), quote(set.task), where), options,
           [&] { work(request_of(sample)); });
  };
  for (const EvalSet& set : sets) {
    for (const Sample& sample : set.samples) do_named(set, sample);
  }
}

void check_lengths_in(const Scorer& scorer, const EvalPlan& plan) {
  const auto is_stored = [](Evidence e) { return e == Evidence::kStoredScorerNorms; };
  const auto is_read = [&](Evidence e) { return is_of_scorer(e) && !is_stored(e); };
  const bool reads = has_evidence(plan, is_read), reads_alone = has_evidence(plan, is_stored);
  for_each_request(plan.sets, " in the scorer", "--passages, --scorer", [&](const Request& r) {
    if (reads) scorer.context().assemble(r, nullptr);
    for (size_t i = 0; reads_alone && i < r.passages.size(); ++i) scorer.check_fits(r.passages[i]);
  });
}

}  // namespace

void check_lengths(const Engine& engine, const std::vector<EvalSet>& sets) {
  for_each_request(sets, "", "--passages, --ctx",
                   [&engine](const Request& r) { engine.prompt_of(r); });
}

std::set<RowKey> planned_rows(const EvalPlan& plan) {
  std::set<RowKey> out;
  for (const EvalSet& set : plan.sets) {
    for (const Sample& sample : set.samples) {
      for (RowKey& key : rows_of(plan, set.task, sample)) out.insert(std::move(key));
    }
  }
  return out;
}

bool run_eval(Engine& engine, Scorer* scorer, const EvalPlan& plan, RunLog& log,
              const EvalHooks& hooks) {
  check_lengths(engine, plan.sets);
  if (scorer != nullptr) check_lengths_in(*scorer, plan);
  Shared shared = {.engine = engine,
                   .scorer = scorer,
                   .plan = plan,
                   .stop = hooks.stop,
                   .references = {plan.reference_dir, plan.reference_limit_bytes},
                   .scorer_digest = scorer_digest(scorer)};
  size_t n_done = 0;
  const auto run_sample = [&](const std::string& task, const Sample& sample) {
    SampleRun run(shared, sample);
    for (const RowKey& key : rows_of(plan, task, sample)) {
      if (hooks.stop.stop_requested())
        throw Error(ErrorCode::kCancelled, fmt::format("cancelled after {} rows", n_done));
      if (!log.has(key, run.inputs(key.policy))) log.add(run.run(key));
      ++n_done;
      if (hooks.progress) hooks.progress(n_done, key);
    }
  };
  try {
    for (const EvalSet& set : plan.sets) {
      for (const Sample& sample : set.samples) run_sample(set.task, sample);
    }
  } catch (const Error& error) {  // what is finished is reported
    if (error.code() != ErrorCode::kCancelled) throw;
    return false;
  }
  return true;
}

}  // namespace tessera
