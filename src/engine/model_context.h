#pragma once
// A model that reads prompts: its tokenizer and prompt texts, what its chunks are computed behind,
// its working KV, and its part of the store. The target has one, and a scorer beside it another.
// Not thread-safe; the model and the store may be shared.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/chunk_builder.h"
#include "engine/chunk_lookup.h"
#include "engine/request.h"
#include "model/decoder.h"
#include "text/prompt.h"

namespace tessera {

struct EngineOptions {
  int32_t n_ctx = 0;      // tokens of prompt and answer; 0: the model's, at most kDefaultContext
  int32_t n_threads = 0;  // 0: one for each CPU there is
  int32_t micro_batch = Decoder::kDefaultMicroBatch;
  int32_t leadin_tokens = 64;
  // Where chunks' sinks are read off (AdaCache); -1, or one that the model lacks: the middle layer.
  int32_t sink_layer = -1;
  std::string name_space = "default";
  std::string model_digest;  // content digest of the model file, part of every key
  PromptTexts texts;
};

class ModelContext {
 public:
  static constexpr int32_t kDefaultContext = 8192;

  // As Engine's constructor.
  ModelContext(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
               ChunkStore* store, const EngineOptions& options);

  struct Assembled {
    Prompt prompt;
    std::vector<std::vector<TokenRange>> chunk_bytes;  // per passage, of each token in its text
  };
  // Segments in order; each is handed to `lookup`, which may be null, as soon as its ids are known,
  // so that loading overlaps tokenising. Throws Error(kInvalidRequest) for texts that cannot be
  // used and for a prompt longer than the context.
  Assembled assemble(const Request& request, ChunkLookup* lookup) const;

  // Starts to ask the store for `matches`; nothing when there is no store or nothing to ask for.
  // Placed in `lookup`, which cannot be moved.
  struct Wanted {
    std::vector<Match> matches;
    AnchorKind anchor = AnchorKind::kPreamble;
    bool trusts_approximate = false;
  };
  void start_lookup(const Wanted& wanted, std::optional<ChunkLookup>& lookup) const;

  // Notes on each segment how it was found, one entry of `found` for each, and copies the KV of
  // those from `first` on into the working KV, which then holds nothing else from there on.
  void place(Prompt& prompt, std::span<const FoundSegment> found, size_t first = 0);

  const Anchor& anchor(AnchorKind kind) const { return anchors_[static_cast<size_t>(kind)]; }
  ChunkBuilder builder();  // needs a store
  const PromptBuilder& prompts() const { return prompts_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const KvDomain& domain() const { return domain_; }
  ChunkStore* store() const { return store_; }
  Decoder& decoder() { return decoder_; }
  WorkingKv& kv() { return kv_; }
  int32_t n_ctx() const { return kv_.n_slots(); }

 private:
  const Tokenizer& tokenizer_;
  ChunkStore* store_;
  PromptTexts texts_;
  PromptBuilder prompts_;
  std::array<Anchor, 3> anchors_;  // by AnchorKind
  Decoder decoder_;
  WorkingKv kv_;
  KvDomain domain_;
};

}  // namespace tessera
