#pragma once
// Makes the evidence that a reuse policy reads, with the model's own kernels. Uses the decoder and
// the working KV it is given, in which everything that was found is in place.
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/chunk_lookup.h"
#include "kv/segment.h"
#include "model/decoder.h"
#include "reuse/policy.h"

namespace tessera {

struct ProbeResult {
  std::vector<float> score;  // one per position of the prompt, 0 where nothing was measured

  // What the probe has computed for good: the residual that enters layer `resume_at` of the rows
  // `positions`, [positions, embed_dim]. Empty: nothing, the chosen rows start at layer 0.
  int32_t resume_at = 0;
  std::vector<int32_t> positions;
  std::vector<float> hidden;

  // Work, in rows that go through all layers: what the same time would recompute.
  double rows = 0;
};

// What is looked at: a model, its working KV with the prompt's loaded segments in place.
struct ProbeInput {
  Decoder& decoder;
  WorkingKv& kv;
  const Prompt& prompt;  // matches noted
  std::span<const FoundSegment> found;
};

// The fresh rows go through the model over the loaded KV, and the attention of the query's rows
// (the last 128 of them) in `layers` is averaged over rows, heads and layers. Layers with a sliding
// window are left out: they see no chunk but the nearest. Throws Error(kInvalidRequest) when none
// is left.
ProbeResult query_attention(const ProbeInput& input, LayerRange layers,
                            const std::stop_token& stop);

// kQueryAttention: as above, in `part` of the layers.
// kValueDeviation: layer 0 of every row that is not exact, then K and V of layer 1; both layers' KV
//   are those of full prefill afterwards.
// kOutwardAttention: the projections of layer 0 of every row that is not exact, and its attention:
//   nothing of the layer that the chosen rows would have to repeat but those projections.
// kKvDeviation: full prefill. The working KV then holds its KV, not what was found.
// Throws Error(kCancelled) when stopped between micro-batches, Error(kInvalidRequest) for a model
// that has no layer to look at. Nothing is run for evidence of a scorer. Not thread-safe: it uses
// the decoder it is given.
ProbeResult run_probe(Evidence evidence, const LayerPart& part, const ProbeInput& input,
                      const std::stop_token& stop);

}  // namespace tessera
