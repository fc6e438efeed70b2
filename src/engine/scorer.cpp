#include "engine/scorer.h"

#include <fmt/format.h>

#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "engine/probe.h"

namespace tessera {
namespace {

// Values of the tokens of each chunk, from one value per row of the prompt.
std::vector<ChunkScores> by_chunk(const Prompt& prompt,
                                  std::span<const std::vector<TokenRange>> bytes,
                                  std::span<const float> value) {
  std::vector<ChunkScores> out;
  for (const Segment& s : prompt.segments) {
    if (s.kind != SegmentKind::kChunk) continue;
    const auto own =
        value.subspan(static_cast<size_t>(s.range.begin), static_cast<size_t>(s.range.size()));
    out.push_back({bytes[out.size()], std::vector<float>(own.begin(), own.end())});
  }
  return out;
}

StepOptions norms_over(TokenRange layers) {
  StepOptions options;
  options.norm_layers = {layers.begin, layers.end};
  options.layers = {0, layers.end};  // nothing above is needed
  return options;
}

}  // namespace

Scorer::Scorer(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
               ChunkStore* chunks, ScoreStore* scores, const EngineOptions& options)
    : context_(model, tokenizer, chunks, options), scores_(scores) {}

TokenRange Scorer::resolved(const LayerPart& part) {
  return layers_of(part, context_.decoder().config().n_layers);
}

Scorer::Rated Scorer::read(const Request& request, Evidence evidence, const LayerPart& part,
                           const std::stop_token& stop) {
  const TokenRange layers = resolved(part);
  resident_epoch_ = 0;
  if (evidence == Evidence::kScorerNorms) {
    const ModelContext::Assembled read = context_.assemble(request, nullptr);
    context_.kv().clear();
    return read_norms(read.prompt, read.chunk_bytes, layers, stop);
  }
  CHECK(evidence == Evidence::kScorerAttention);
  std::optional<ChunkLookup> lookup;
  context_.start_lookup({Match::kExact, Match::kIndependent}, AnchorKind::kPreamble, lookup);
  ModelContext::Assembled read = context_.assemble(request, lookup ? &*lookup : nullptr);
  const std::vector<FoundSegment> found =
      context_.place(read.prompt, lookup ? lookup->finish() : std::vector<FoundSegment>());
  const ProbeResult probe = query_attention({context_.decoder(), context_.kv(), read.prompt, found},
                                            {layers.begin, layers.end}, stop);
  return {by_chunk(read.prompt, read.chunk_bytes, probe.score), probe.rows};
}

Scorer::Rated Scorer::read_norms(const Prompt& prompt,
                                 std::span<const std::vector<TokenRange>> bytes, TokenRange layers,
                                 const std::stop_token& stop) {
  const auto n_rows = static_cast<size_t>(prompt.segments.back().range.begin);
  std::vector<int32_t> positions(n_rows);
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<float> norms =
      context_.decoder()
          .prefill({&context_.kv(), std::span(prompt.ids).first(n_rows), positions},
                   norms_over(layers), stop)
          .norms;
  return {by_chunk(prompt, bytes, norms),
          static_cast<double>(n_rows) * layers.end / context_.decoder().config().n_layers};
}

Scorer::Alone Scorer::score_alone(const PassageText& passage, TokenRange layers,
                                  const std::stop_token& stop) {
  const std::vector<int32_t>& before = context_.anchor(AnchorKind::kPreamble).ids;
  TokenizedText chunk = context_.prompts().chunk_tokens(passage.title, passage.text);
  if (before.size() + chunk.ids.size() > static_cast<size_t>(context_.n_ctx())) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("a chunk of {} scorer tokens behind a preamble of {} does not fit into "
                            "the scorer's context of {} - split it smaller",
                            chunk.ids.size(), before.size(), context_.n_ctx()));
  }
  size_t n_computed = chunk.ids.size();
  std::vector<int32_t> positions(std::max(before.size(), chunk.ids.size()));
  std::iota(positions.begin(), positions.end(), 0);
  WorkingKv& kv = context_.kv();
  if (resident_epoch_ != kv.epoch() || resident_epoch_ == 0) {
    kv.clear();
    context_.decoder().prefill({&kv, before, std::span(positions).first(before.size())}, {}, stop);
    resident_epoch_ = kv.epoch();
    n_computed += before.size();
  }
  kv.truncate(static_cast<int32_t>(before.size()));
  positions.resize(chunk.ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(before.size()));
  StepResult result =
      context_.decoder().prefill({&kv, chunk.ids, positions}, norms_over(layers), stop);
  return {{std::move(chunk.bytes), std::move(result.norms)},
          static_cast<double>(n_computed) * layers.end / context_.decoder().config().n_layers};
}

ChunkKey Scorer::key_of_scores(const PassageText& passage, TokenRange layers) const {
  const std::string kind = fmt::format("norms of layers {}-{}", layers.begin, layers.end - 1);
  return score_key({context_.domain(), kind, context_.anchor(AnchorKind::kPreamble).ids},
                   chunk_text(passage.title, passage.text));
}

Scorer::Rated Scorer::stored(std::span<const PassageText> passages, const std::vector<bool>& wanted,
                             const LayerPart& part, const std::stop_token& stop) {
  CHECK(wanted.size() == passages.size());
  const TokenRange layers = resolved(part);
  Rated out;
  out.chunks.resize(passages.size());
  for (size_t i = 0; i < passages.size(); ++i) {
    if (!wanted[i]) continue;
    const ChunkKey key = key_of_scores(passages[i], layers);
    std::optional<ChunkScores> kept = scores_ == nullptr ? std::nullopt : scores_->find(key);
    if (!kept) {
      Alone made = score_alone(passages[i], layers, stop);
      if (scores_ != nullptr) scores_->put(key, made.scores);
      out.rows += made.rows;
      kept = std::move(made.scores);
    }
    out.chunks[i] = std::move(*kept);
  }
  return out;
}

Scorer::Outcome Scorer::build(const PassageText& passage, const LayerPart& part,
                              const std::stop_token& stop) {
  const TokenRange layers = resolved(part);
  Outcome outcome = Outcome::kPresent;
  if (scores_ != nullptr) {
    const ChunkKey key = key_of_scores(passage, layers);
    if (!scores_->contains(key)) {
      const bool is_kept = scores_->put(key, score_alone(passage, layers, stop).scores);
      outcome = is_kept ? Outcome::kBuilt : Outcome::kNotStored;
    }
  }
  if (context_.store() == nullptr) return outcome;
  resident_epoch_ = 0;
  const ChunkBuilder::Outcome kv =
      context_.builder().build(context_.anchor(AnchorKind::kPreamble),
                               context_.prompts().chunk_ids(passage.title, passage.text), stop);
  if (kv == ChunkBuilder::Outcome::kNotStored) return Outcome::kNotStored;
  return kv == ChunkBuilder::Outcome::kBuilt ? Outcome::kBuilt : outcome;
}

}  // namespace tessera
