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
#include "eval/reference_cache.h"

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

std::vector<int32_t> prompt_ids(const PromptBuilder& prompts, const Sample& sample) {
  std::vector<int32_t> ids = prompts.preamble_ids();
  const auto add = [&ids](const std::vector<int32_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
  };
  for (const PassageText& p : sample.passages) add(prompts.chunk_ids(p.title, p.text));
  add(prompts.query_ids(sample.question));
  return ids;
}

struct Answered {
  Answer answer;
  std::vector<int32_t> tokens;  // that `logits` predict
  std::vector<float> logits;    // [rows, n_vocab]
  double gold_nll = 0;
};

// One question under each policy of the plan.
class SampleRun {
 public:
  SampleRun(Engine& engine, const EvalPlan& plan, const std::stop_token& stop, const Sample& sample)
      : engine_(engine), plan_(plan), stop_(stop), sample_(sample), digest_(sample_digest(sample)) {
    gold_ = engine.prompts().text_ids(" " + sample.answers.front());
    gold_.resize(std::min(gold_.size(), static_cast<size_t>(kCompareTokens)));
    request_.passages = sample.passages;
    request_.question = sample.question;
    request_.max_tokens = plan.max_tokens;
  }

  const std::string& digest() const { return digest_; }

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
    Measurement out = scored(key, full.answer);
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
    Measurement out = scored(key, answered.answer.text);
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

  Measurement scored(const RowKey& key, const std::string& answer) const {
    Measurement out;
    out.key = key;
    out.sample = digest_;
    out.answer = answer;
    out.f1 = token_f1(answer, sample_.answers);
    out.exact_match = is_exact_match(answer, sample_.answers) ? 1 : 0;
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
    const ReferenceCache cache(plan_.reference_dir);
    const std::string key = reference_key();
    if (std::optional<FullPrefill> kept = cache.find(key, n_vocab())) return std::move(*kept);
    Request request = request_;
    request.policy = kFullPolicy;
    Answered answered = measure(request, nullptr);
    FullPrefill out;
    out.answer = std::move(answered.answer.text);
    out.tokens = std::move(answered.tokens);
    out.logits = std::move(answered.logits);
    out.gold_nll = answered.gold_nll;
    out.ttft_ms = answered.answer.timings.ttft_ms();
    out.n_prompt_tokens = answered.answer.account.total();
    cache.put(key, out);  // a refusal is logged, and costs only the next run
    return out;
  }

  // Hex, over everything that decides what full prefill says, and how fast.
  std::string reference_key() const {
    const KvDomain& domain = engine_.domain();
    const std::vector<int32_t> ids = prompt_ids(engine_.prompts(), sample_);
    // Where the context ends early the answer does too.
    const auto n_ctx = static_cast<size_t>(engine_.n_ctx());
    const size_t room = n_ctx - std::min(n_ctx, ids.size());
    const auto n_wanted = static_cast<size_t>(plan_.max_tokens + kCompareTokens);
    Sha256 hash;
    hash.field("format", kReferenceFormat);
    hash.field("model", domain.model_digest);
    hash.field("weight types", domain.weight_types);
    hash.field("tokenizer", domain.tokenizer_digest);
    hash.field("rope", domain.rope);
    hash.field("machine", plan_.machine);
    hash.field("max tokens", static_cast<uint64_t>(plan_.max_tokens));
    hash.field("room", std::min(room, n_wanted));
    hash.field("prompt", std::as_bytes(std::span(ids)));
    hash.field("gold", std::as_bytes(std::span(gold_)));
    return to_hex(hash.digest());
  }

  // Makes the KV of the passages, and reads it once: without that the policy that comes first would
  // pay for the disk. What is damaged on the disk is found only by reading, hence the second try.
  void prepare(Request request) {
    request.policy = "reuse";
    for (int tries = 0; tries < 2; ++tries) {
      build(engine_.anchor(request.anchor));
      const Prefilled warm = engine_.prefill(request, stop_);
      const auto is_missed = [](const Segment& s) {
        const bool is_stored = s.kind == SegmentKind::kPreamble || s.kind == SegmentKind::kChunk;
        return is_stored && s.match == Match::kMiss;
      };
      if (std::ranges::none_of(warm.plan.segments, is_missed)) return rate(request);
    }
    throw Error(ErrorCode::kIo,
                fmt::format("the KV of a passage of question {} is not in the store - it could not "
                            "be kept, and every policy would be measured without it - make room "
                            "on the disk, raise --disk-limit or run 'tessera cache verify'",
                            quote(sample_.id)));
  }

  // Scores that are kept from indexing on are made here, or the first question would pay for them.
  void rate(Request request) {
    for (const std::string& policy : plan_.policies) {
      const auto made = make_policy(policy, request.policy_options);
      if (made->evidence() != Evidence::kStoredScorerNorms) continue;
      request.policy = policy;
      engine_.prefill(request, stop_);
    }
  }

  void build(const Anchor& anchor) {
    ChunkBuilder builder = engine_.builder();
    builder.build_preamble(engine_.prompts().preamble_ids(), stop_);
    for (const PassageText& p : sample_.passages)
      builder.build(anchor, engine_.prompts().chunk_ids(p.title, p.text), stop_);
  }

  int32_t n_vocab() const { return engine_.decoder().config().n_vocab; }

  Engine& engine_;
  const EvalPlan& plan_;
  const std::stop_token& stop_;
  const Sample& sample_;
  std::string digest_;
  std::vector<int32_t> gold_;
  Request request_;
  std::optional<FullPrefill> full_;
  std::string prepared_;  // the anchor whose chunks are in the store and were read
};

}  // namespace

std::set<RowKey> planned_rows(const EvalPlan& plan) {
  std::set<RowKey> out;
  for (const EvalSet& set : plan.sets) {
    for (const Sample& sample : set.samples) {
      for (RowKey& key : rows_of(plan, set.task, sample)) out.insert(std::move(key));
    }
  }
  return out;
}

bool run_eval(Engine& engine, const EvalPlan& plan, RunLog& log, const EvalHooks& hooks) {
  size_t n_done = 0;
  const auto run_sample = [&](const std::string& task, const Sample& sample) {
    SampleRun run(engine, plan, hooks.stop, sample);
    for (const RowKey& key : rows_of(plan, task, sample)) {
      if (hooks.stop.stop_requested())
        throw Error(ErrorCode::kCancelled, fmt::format("cancelled after {} rows", n_done));
      if (!log.has(key, run.digest())) log.add(run.run(key));
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
