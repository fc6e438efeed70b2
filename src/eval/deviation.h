#pragma once
// How far the KV of reused chunks is from full prefill's, layer by layer, and where in a chunk.
// docs/ANALYSIS.md. Pure, but for what measures with an engine; thread-safe but for that.
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "eval/statistics.h"
#include "kv/chunk.h"

namespace tessera {

// The first tokens of a chunk, whose share of the deviation is shown: a chunk that was computed
// alone has an attention sink of its own there.
inline constexpr int32_t kHeadTokens = 8;

// Of K or V of one layer, over the tokens of chunks.
struct MatrixDeviation {
  double error = 0;       // mean of |full - reused|^2 / |full|^2 of a token
  double cosine = 0;      // mean of the cosine between both of a token
  double head_share = 0;  // of the sum of the errors, what the first tokens of each chunk carry;
                          // their share of the tokens where there is no error
};

// Of one prompt.
struct PromptDeviation {
  std::vector<MatrixDeviation> matrices;  // [2 * layers]: K of layer 0, V of layer 0, K of layer 1
  double head_tokens_share = 0;           // what `head_share` would be if all tokens were alike
};

struct ReusedChunk {
  TokenRange range;                    // places in the prompt
  std::span<const std::byte> payload;  // as KvChunk's
};

// `full`: K and V of the prompt as full_kv() gives them. Needs a chunk with a token.
PromptDeviation deviation_of(const KvGeometry& geometry, std::span<const std::byte> full,
                             std::span<const ReusedChunk> chunks);

// Deviations of one request under each of the anchors. The chunks are made, and must be kept, by
// the engine's store. The first chunk is left out: behind the anchor `preamble` it is exact, and
// all anchors are to be compared over the same tokens. Throws Error(kInvalidRequest) for a request
// of less than two passages, and what store_passages() and the engine throw.
std::vector<PromptDeviation> measure_deviation(Engine& engine, const Request& request,
                                               const std::string& id,
                                               std::span<const AnchorKind> anchors,
                                               const std::stop_token& stop);

// Means over prompts, each prompt alike, with their intervals.
struct MatrixEstimate {
  Estimate error, cosine, head_share;
};
struct DeviationReport {
  std::vector<MatrixEstimate> matrices;  // as in PromptDeviation
  MatrixEstimate k, v;                   // means over all layers
  double head_tokens_share = 0;
};
// Needs a prompt; all of one model.
DeviationReport deviation_report(std::span<const PromptDeviation> prompts,
                                 const Resamples& resamples);

}  // namespace tessera
