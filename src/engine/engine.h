#pragma once
// Answers questions over passages: plan, load, compute, sample, commit. One request at a time.
//
// Not thread-safe: one engine per thread (the model and the store may be shared). A fault of the
// store is a miss; a bad request is an Error and leaves the engine as it was.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chunk_builder.h"
#include "engine/chunk_lookup.h"
#include "kv/account.h"
#include "model/decoder.h"
#include "reuse/policy.h"
#include "text/prompt.h"
#include "text/sampler.h"

namespace tessera {

struct EngineOptions {
  int32_t n_ctx = 0;      // tokens of prompt and answer; 0: the model's, at most kDefaultContext
  int32_t n_threads = 0;  // 0: one for each CPU there is
  int32_t micro_batch = Decoder::kDefaultMicroBatch;
  int32_t leadin_tokens = 64;
  std::string name_space = "default";
  std::string model_digest;  // content digest of the model file, part of every key
  PromptTexts texts;
};

struct PassageText {
  std::string title;
  std::string text;
};

struct Request {
  std::vector<PassageText> passages;  // in the order in which they stand in the prompt
  std::string question;
  std::optional<std::string> system;  // another system message than the store's
  std::string policy = std::string(kDefaultPolicy);
  PolicyOptions policy_options;
  AnchorKind anchor = AnchorKind::kLeadin;
  int32_t max_tokens = 64;
  SamplerOptions sampler;
  std::vector<std::string> stop;
};

// Milliseconds. Loading runs beside tokenising: load_ms is what was left to wait for, and the copy
// into place.
struct Timings {
  double tokenize_ms = 0;
  double retrieve_ms = 0;  // set by the caller, who retrieved
  double load_ms = 0;
  double select_ms = 0;
  double prefill_ms = 0;
  double first_token_ms = 0;  // sampling and decoding its text
  double decode_ms = 0;       // all later tokens
  double ttft_ms() const {
    return tokenize_ms + retrieve_ms + load_ms + select_ms + prefill_ms + first_token_ms;
  }
};

struct SegmentReport {
  SegmentKind kind = SegmentKind::kText;
  int32_t n_tokens = 0;
  Match match = Match::kMiss;
  std::string tier;  // "" for a miss
  int32_t recomputed = 0;
};

// A prompt whose KV stands in the engine's working KV, until the engine's next prefill or commit.
struct Prefilled {
  uint64_t kv_epoch = 0;
  Prompt prompt;
  ReusePlan plan;
  std::vector<FoundSegment> found;  // pins, one per segment
  std::vector<float> logits;        // [n_vocab], of the last token
  double probe_rows = 0;            // work of the policy's evidence, in rows through all layers
  // KV of the computed rows, as in StepResult::captured; only for policies that ask for nothing but
  // exact matches: what they compute is exact and may be published as such.
  std::vector<std::byte> captured;
  Timings timings;
};

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::string finish_reason;  // "stop" or "length"
  std::string policy;
  Account account;
  double probe_rows = 0;  // as in Prefilled
  Timings timings;
  std::vector<SegmentReport> segments;
};

class Engine {
 public:
  static constexpr int32_t kDefaultContext = 8192;
  using TextSink = std::function<void(std::string_view)>;

  // `store` may be null: nothing is looked up or kept. References must outlive the engine. Throws
  // Error(kInvalidRequest) for a context that the model cannot hold, and for a store without a
  // model digest, whose chunks another model would find; Error(kModel) for a tokenizer of another
  // model; Error(kIo) without memory.
  Engine(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer, ChunkStore* store,
         const EngineOptions& options);

  // A request is checked before anything is computed: Error(kInvalidRequest) says what is wrong
  // with it. All of these throw Error(kCancelled) when `stop` is requested, Error(kModel) for
  // logits that are not finite, Error(kIo) without memory; the engine stays usable.

  // Whole request: text is given to `sink` as it comes, then commit().
  Answer answer(const Request& request, const TextSink& sink = {},
                const std::stop_token& stop = {});

  // The parts of a request, for comparison and measurement.
  Prefilled prefill(const Request& request, const std::stop_token& stop = {});
  Answer generate(const Request& request, Prefilled& prefilled, const TextSink& sink,
                  const std::stop_token& stop = {});
  // Stores what the request missed: under an exact-only policy the exact KV it computed, else
  // anchored blobs, which are made now and cost about a prefill of those chunks. Overwrites the
  // working KV. The answer is out by then, so a failure (a stop, a full disk) is no error: false.
  bool commit(const Request& request, const Prefilled& prefilled, const std::stop_token& stop = {});
  // Logits behind each of `tokens`, teacher-forced behind the prompt: [tokens, n_vocab], at least
  // one row, fewer where the context ends; the prompt's own last ones first, so that row i predicts
  // tokens[i]. The working KV must still hold the prompt; it is cut back to it.
  std::vector<float> forced_logits(const Prefilled& prefilled, std::span<const int32_t> tokens);

  const Anchor& anchor(AnchorKind kind) const { return anchors_[static_cast<size_t>(kind)]; }
  ChunkBuilder builder();  // needs a store
  const PromptBuilder& prompts() const { return prompts_; }
  const KvDomain& domain() const { return domain_; }
  Decoder& decoder() { return decoder_; }
  WorkingKv& kv() { return kv_; }
  int32_t n_ctx() const { return options_.n_ctx; }

 private:
  Prompt assemble(const Request& request, ChunkLookup* lookup) const;
  void check_length(const Prompt& prompt) const;
  std::vector<FoundSegment> place(Prompt& prompt, std::vector<FoundSegment> found);
  bool publish_exact(const Prefilled& prefilled);
  bool build_missed(const Request& request, const Prefilled& prefilled,
                    const std::stop_token& stop);

  const Tokenizer& tokenizer_;
  ChunkStore* store_;
  EngineOptions options_;
  PromptBuilder prompts_;
  std::array<Anchor, 3> anchors_;  // by AnchorKind
  Decoder decoder_;
  WorkingKv kv_;
  KvDomain domain_;
};

std::string_view match_name(Match match);
std::string_view segment_kind_name(SegmentKind kind);

}  // namespace tessera
