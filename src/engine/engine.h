#pragma once
// Answers questions over passages: plan, load, compute, sample, commit. One request at a time.
//
// Not thread-safe: one engine per thread (the model and the store may be shared). A fault of the
// store is a miss; a bad request is an Error and leaves the engine as it was.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/adaptive.h"
#include "engine/model_context.h"
#include "engine/publisher.h"
#include "engine/request.h"
#include "engine/scorer.h"
#include "kv/account.h"

namespace tessera {

// Milliseconds. Loading runs beside tokenising and beside a scorer: load_ms is what was left to
// wait for, and the copy into place.
struct Timings {
  double tokenize_ms = 0;
  double retrieve_ms = 0;  // set by the caller, who retrieved
  double load_ms = 0;
  double load_hidden_ms = 0;  // of loading, what ran beside other work: no part of the sum
  double score_ms = 0;        // the scorer's work
  double select_ms = 0;       // the target's probe, alignment, choice
  double prefill_ms = 0;
  double first_token_ms = 0;  // sampling and decoding its text
  double decode_ms = 0;       // all later tokens
  double ttft_ms() const {
    return tokenize_ms + retrieve_ms + load_ms + score_ms + select_ms + prefill_ms + first_token_ms;
  }
};

struct SegmentReport {
  SegmentKind kind = SegmentKind::kText;
  int32_t n_tokens = 0;
  Match match = Match::kMiss;
  std::string tier;  // "" for a miss
  int32_t recomputed = 0;
  uint32_t approximation_depth = 0;  // of the KV that was loaded
  // Of a soft match, which of the recorded company was met again, hex; "" for what was not.
  std::string matched_predecessor, matched_sink;
};

// A prompt whose KV stands in the engine's working KV, until the engine's next prefill or commit.
struct Prefilled {
  uint64_t kv_epoch = 0;
  Prompt prompt;
  ReusePlan plan;
  std::vector<FoundSegment> found;  // pins, one per segment
  std::vector<float> logits;        // [n_vocab], of the last token
  double probe_rows = 0;            // work of the policy's evidence, in rows through all layers
  double scorer_rows = 0;           // the same of the scorer's, in rows of its own
  // Per segment the KV of its computed rows, as in StepResult::captured; only where it may be
  // published: empty otherwise.
  std::vector<std::vector<std::byte>> captured;
  // Per segment the earlier chunk that its computed rows attend to most, -1: none was read off.
  std::vector<int32_t> sinks;
  std::optional<AdaptiveReport> adaptive;
  Timings timings;
};

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::string finish_reason;  // "stop" or "length"
  std::string policy;
  Account account;
  double probe_rows = 0, scorer_rows = 0;  // as in Prefilled
  Timings timings;
  std::vector<SegmentReport> segments;
  std::optional<AdaptiveReport> adaptive;  // only where the request asked for it
};

// All rows that an answer cost, through all layers: those of every round and of the probe, which
// the account, that of the last prompt, does not hold. The scorer's are not among them.
inline double computed_rows(const Answer& answer) {
  double rows = answer.probe_rows;
  if (!answer.adaptive) return rows + answer.account.rows();
  for (const Round& round : answer.adaptive->rounds) rows += round.rows;
  return rows;
}

class Engine {
 public:
  using TextSink = std::function<void(std::string_view)>;

  // `store` may be null: nothing is looked up or kept. `scorer` may be null: policies that need one
  // are refused. References and pointers must outlive the engine. Throws
  // Error(kInvalidRequest) for a context that the model cannot hold, and for a store without a
  // model digest, whose chunks another model would find; Error(kModel) for a tokenizer of another
  // model; Error(kIo) without memory.
  Engine(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer, ChunkStore* store,
         const EngineOptions& options, Scorer* scorer = nullptr);

  // Whether a policy reads the scores of a small model: not where it can choose nothing. Throws as
  // make_policy().
  static bool needs_scorer(std::string_view policy, const PolicyOptions& options);

  // The prompt of a request, with nothing looked up. Throws Error(kInvalidRequest) as prefill().
  Prompt prompt_of(const Request& request) const;

  // A request is checked before anything is computed: Error(kInvalidRequest) says what is wrong
  // with it. All of these throw Error(kCancelled) when `stop` is requested and Error(kIo) without
  // memory; choosing a token throws Error(kModel) for logits that are not finite. The engine stays
  // usable.

  // Whole request: text is given to `sink` as it comes, then commit().
  Answer answer(const Request& request, const TextSink& sink = {},
                const std::stop_token& stop = {});

  // The parts of a request, for comparison and measurement.
  Prefilled prefill(const Request& request, const std::stop_token& stop = {});
  Answer generate(const Request& request, Prefilled& prefilled, const TextSink& sink,
                  const std::stop_token& stop = {});
  // Stores what the request computed and others may find: exact KV under policies that look for
  // nothing else, and under those that look for soft matches, which also keep KV made in context as
  // what it is; else anchored blobs of what was missed, which are made now and cost about a prefill
  // of those chunks. Overwrites the working KV. The answer is out by then, so a failure (a stop, a
  // full disk) is no error: false.
  bool commit(const Request& request, const Prefilled& prefilled, const std::stop_token& stop = {});
  // Logits behind each of `tokens`, teacher-forced behind the prompt: [tokens, n_vocab], at least
  // one row, fewer where the context ends; the prompt's own last ones first, so that row i predicts
  // tokens[i]. The working KV must still hold the prompt; it is cut back to it.
  std::vector<float> forced_logits(const Prefilled& prefilled, std::span<const int32_t> tokens);

  const Anchor& anchor(AnchorKind kind) const { return context_.anchor(kind); }
  ChunkBuilder builder() { return context_.builder(); }  // needs a store
  const PromptBuilder& prompts() const { return context_.prompts(); }
  const KvDomain& domain() const { return context_.domain(); }
  Decoder& decoder() { return context_.decoder(); }
  WorkingKv& kv() { return context_.kv(); }
  int32_t n_ctx() const { return context_.n_ctx(); }

 private:
  struct Work;
  void rate_beside_loading(Work& work);
  void rate_from_store(Work& work, std::span<const Segment> segments);
  void run_round(Work& work, size_t n_passages, Prefilled& out);
  std::vector<int32_t> plan(Work& work, const Prompt& open, Prefilled& out);
  bool publishes(const Work& work, const Prefilled& out) const;
  void compute(Work& work, std::span<const int32_t> rows, Prefilled& out);
  void keep(const Work& work, std::span<const int32_t> rows, const StepOptions& options,
            const StepResult& result, Prefilled& out) const;
  bool publish(const Request& request, const PublishRules& rules, const Prefilled& prefilled);
  void count_uses(const Prefilled& prefilled);
  bool build_missed(const Request& request, const Prefilled& prefilled,
                    const std::stop_token& stop);

  ModelContext context_;
  Scorer* scorer_;
  int32_t sink_layer_;
};

std::string_view match_name(Match match);
std::string_view segment_kind_name(SegmentKind kind);

}  // namespace tessera
