#pragma once
// A small model beside the target that rates the tokens of chunks: SpecCache section 2.2, DESIGN.md
// section 6.1. It reads the same passages and question in its own tokens and its own template.
//
// Not thread-safe: one scorer per engine. The model and the stores may be shared.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/model_context.h"
#include "store/score_store.h"

namespace tessera {

class Scorer {
 public:
  // `chunks` may be null: then the scorer computes every chunk of a prompt that it reads; else it
  // loads the KV of its own that is there. `scores` may be null: then nothing is kept. Throws as
  // ModelContext's constructor, also for a score store without a model digest.
  Scorer(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer, ChunkStore* chunks,
         ScoreStore* scores, const EngineOptions& options);

  struct Result {
    std::vector<ChunkScores> chunks;  // one per passage; empty where none was asked for
    double rows = 0;                  // computed, in rows through all layers of the scorer
  };

  // The methods below throw Error(kInvalidRequest) for a prompt or chunk longer than the scorer's
  // context and for layers it does not have, Error(kCancelled), Error(kIo) without memory.

  // Reads the prompt of `request`.
  // kScorerNorms: mean L2 norm of each token's hidden state over the layers; the question, which
  //   stands behind every chunk, is not computed.
  // kScorerAttention: the query rows' attention, averaged over rows, heads and the layers that see
  //   the whole prompt.
  Result read(const Request& request, Evidence evidence, const LayerPart& part,
              const std::stop_token& stop);

  // Norms of the passages that are `wanted`, each read alone behind the scorer's preamble: from the
  // store, or made now and kept.
  Result stored(std::span<const PassageText> passages, const std::vector<bool>& wanted,
                const LayerPart& part, const std::stop_token& stop);

  enum class Outcome { kPresent, kBuilt, kNotStored };
  // What indexing does for a passage: its norms for kStoredScorerNorms, its KV for kScorerAttention
  // where the scorer has a chunk store. For all else nothing can be kept: kPresent.
  Outcome build(const PassageText& passage, Evidence evidence, const LayerPart& part,
                const std::stop_token& stop);

  // A passage alone: throws Error(kInvalidRequest) when stored() could not read it.
  void check_fits(const PassageText& passage) const;

  const ModelContext& context() const { return context_; }

 private:
  ModelContext::Assembled assemble(const Request& request, ChunkLookup* lookup) const;
  Result read_norms(const Prompt& prompt, std::span<const std::vector<TokenRange>> bytes,
                    LayerRange layers, const std::stop_token& stop);
  // One chunk; adds to `rows` what was computed.
  ChunkScores score_alone(const PassageText& passage, LayerRange layers, double& rows,
                          const std::stop_token& stop);
  std::optional<ChunkScores> kept_scores(const PassageText& passage, LayerRange layers);
  Outcome build_norms(const PassageText& passage, LayerRange layers, const std::stop_token& stop);
  void check_fits(size_t n_tokens) const;
  ChunkKey key_of_scores(const PassageText& passage, LayerRange layers) const;
  LayerRange resolved(const LayerPart& part);

  ModelContext context_;
  ScoreStore* scores_;
  FrontKv front_;
  std::optional<ChunkBuilder> builder_;  // where there is a chunk store
};

}  // namespace tessera
