#include "engine/scorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

bool is_finite(const ChunkScores& scores) {
  return std::all_of(scores.value.begin(), scores.value.end(),
                     [](float v) { return std::isfinite(v); });
}

// Whether a record can be that of the text: it then ends where the text ends.
bool fits(const ChunkScores& scores, std::string_view text) {
  return !scores.bytes.empty() && static_cast<size_t>(scores.bytes.back().end) == text.size() &&
         is_finite(scores);
}

StepOptions norms_over(LayerRange layers) {
  StepOptions options;
  options.norm_layers = layers;
  options.layers = {0, layers.end};  // nothing above is needed
  return options;
}

}  // namespace

Scorer::Scorer(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
               ChunkStore* chunks, ScoreStore* scores, const EngineOptions& options)
    : context_(model, tokenizer, chunks, options),
      scores_(scores),
      front_(context_.decoder(), context_.kv()) {
  if (scores != nullptr && options.model_digest.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                "a score store needs the digest of the scorer - without it models of one shape "
                "would find each other's scores - set model_digest");
  }
  if (chunks != nullptr)
    builder_.emplace(context_.decoder(), context_.kv(), *chunks, context_.domain());
}

LayerRange Scorer::resolved(const LayerPart& part) {
  return layers_of(part, context_.decoder().config().n_layers);
}

// The limits of the scorer are not those that the user set for the model that answers.
ModelContext::Assembled Scorer::assemble(const Request& request, ChunkLookup* lookup) const {
  try {
    return context_.assemble(request, lookup);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("the scorer cannot read it: {}, or use a policy or a "
                                          "scorer that can",
                                          error.what()));
  }
}

Scorer::Result Scorer::read(const Request& request, Evidence evidence, const LayerPart& part,
                            const std::stop_token& stop) {
  const LayerRange layers = resolved(part);
  if (evidence == Evidence::kScorerNorms) {
    const ModelContext::Assembled read = assemble(request, nullptr);
    context_.kv().clear();
    return read_norms(read.prompt, read.chunk_bytes, layers, stop);
  }
  CHECK(evidence == Evidence::kScorerAttention);
  std::optional<ChunkLookup> lookup;
  context_.start_lookup({{Match::kExact, Match::kIndependent}}, lookup);
  ModelContext::Assembled read = assemble(request, lookup ? &*lookup : nullptr);
  std::vector<FoundSegment> found;
  if (lookup) found = lookup->finish();
  found.resize(read.prompt.segments.size());
  context_.place(read.prompt, found);
  const ProbeResult probe =
      query_attention({context_.decoder(), context_.kv(), read.prompt, found}, layers, stop);
  return {by_chunk(read.prompt, read.chunk_bytes, probe.score), probe.rows};
}

Scorer::Result Scorer::read_norms(const Prompt& prompt,
                                  std::span<const std::vector<TokenRange>> bytes, LayerRange layers,
                                  const std::stop_token& stop) {
  const auto n_rows = static_cast<size_t>(prompt.segments.back().range.begin);
  if (n_rows == 0) return {};
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

void Scorer::check_fits(size_t n_tokens) const {
  const size_t n_before = context_.anchor(AnchorKind::kPreamble).ids.size();
  if (n_before + n_tokens <= static_cast<size_t>(context_.n_ctx())) return;
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("a chunk of {} scorer tokens behind a preamble of {} does not fit into "
                          "the scorer's context of {} - split it smaller or use another scorer",
                          n_tokens, n_before, context_.n_ctx()));
}

void Scorer::check_fits(const PassageText& passage) const {
  check_fits(context_.prompts().chunk_ids(passage.title, passage.text).size());
}

ChunkScores Scorer::score_alone(const PassageText& passage, LayerRange layers, double& rows,
                                const std::stop_token& stop) {
  const std::vector<int32_t>& before = context_.anchor(AnchorKind::kPreamble).ids;
  TokenizedText chunk = context_.prompts().chunk_tokens(passage.title, passage.text);
  check_fits(chunk.ids.size());
  rows += static_cast<double>(front_.put(before, stop));
  std::vector<int32_t> positions(chunk.ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(before.size()));
  StepResult result =
      context_.decoder().prefill({&context_.kv(), chunk.ids, positions}, norms_over(layers), stop);
  rows += static_cast<double>(chunk.ids.size()) * layers.end / context_.decoder().config().n_layers;
  return {std::move(chunk.bytes), std::move(result.norms)};
}

ChunkKey Scorer::key_of_scores(const PassageText& passage, LayerRange layers) const {
  const std::string kind = fmt::format("norms of layers {}-{}", layers.begin, layers.end - 1);
  return score_key({context_.domain(), kind, context_.anchor(AnchorKind::kPreamble).ids},
                   chunk_text(passage.title, passage.text));
}

std::optional<ChunkScores> Scorer::kept_scores(const PassageText& passage, LayerRange layers) {
  if (scores_ == nullptr) return std::nullopt;
  std::optional<ChunkScores> kept = scores_->find(key_of_scores(passage, layers));
  if (kept && !fits(*kept, chunk_text(passage.title, passage.text))) kept.reset();
  return kept;
}

Scorer::Result Scorer::stored(std::span<const PassageText> passages,
                              const std::vector<bool>& wanted, const LayerPart& part,
                              const std::stop_token& stop) {
  CHECK(wanted.size() == passages.size());
  const LayerRange layers = resolved(part);
  Result out;
  out.chunks.resize(passages.size());
  for (size_t i = 0; i < passages.size(); ++i) {
    if (!wanted[i]) continue;
    std::optional<ChunkScores> kept = kept_scores(passages[i], layers);
    if (!kept) {
      kept = score_alone(passages[i], layers, out.rows, stop);
      if (scores_ != nullptr && is_finite(*kept))
        scores_->put(key_of_scores(passages[i], layers), *kept);
    }
    out.chunks[i] = std::move(*kept);
  }
  return out;
}

Scorer::Outcome Scorer::build_norms(const PassageText& passage, LayerRange layers,
                                    const std::stop_token& stop) {
  if (kept_scores(passage, layers)) return Outcome::kPresent;
  double rows = 0;
  const ChunkScores scores = score_alone(passage, layers, rows, stop);
  const bool is_kept = is_finite(scores) && scores_->put(key_of_scores(passage, layers), scores);
  return is_kept ? Outcome::kBuilt : Outcome::kNotStored;
}

Scorer::Outcome Scorer::build(const PassageText& passage, Evidence evidence, const LayerPart& part,
                              const std::stop_token& stop) {
  if (evidence == Evidence::kStoredScorerNorms && scores_ != nullptr)
    return build_norms(passage, resolved(part), stop);
  if (evidence != Evidence::kScorerAttention || !builder_) return Outcome::kPresent;
  builder_->build_preamble(context_.prompts().preamble_ids(), stop);
  switch (builder_->build(context_.anchor(AnchorKind::kPreamble),
                          context_.prompts().chunk_ids(passage.title, passage.text), stop)) {
    case ChunkBuilder::Outcome::kBuilt:
      return Outcome::kBuilt;
    case ChunkBuilder::Outcome::kPresent:
      return Outcome::kPresent;
    case ChunkBuilder::Outcome::kNotStored:
      break;
  }
  return Outcome::kNotStored;
}

}  // namespace tessera
