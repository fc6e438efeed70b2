#pragma once
// How the attention of a prompt's segments divides among its segments, layer by layer, and what
// AdaCache reads from it: local attention in early layers, a sink chunk in late ones
// (docs/ANALYSIS.md).
//
// Prompts are [preamble][chunk 1]...[chunk k][query], so that segment i is chunk i. Layers count
// from 0. All but attention_map() is pure and thread-safe.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace tessera {

inline constexpr int32_t kLeastAttentionLayers = 3;
inline constexpr size_t kLeastAttentionChunks = 3;  // the third has a predecessor and another one
inline constexpr size_t kLeastDriftChunks = 4;      // that a rotated prompt says anything about

// Of one prompt. Entry [layer, from, to]: the attention that a row of segment `from` pays to
// segment `to`, averaged over heads and over the rows of `from`. Sums to 1 over `to`.
struct AttentionMap {
  size_t n_layers = 0;
  size_t n_segments = 0;
  std::vector<double> mass;  // [n_layers, n_segments, n_segments]

  double at(size_t layer, size_t from, size_t to) const {
    return mass[(layer * n_segments + from) * n_segments + to];
  }
};

// Throw Error(kModel) for a model, and Error(kInvalidRequest) for a prompt, that is too small to
// tell a predecessor from a sink.
void check_layers_to_map(const ModelConfig& config);
void check_chunks_to_map(const Prompt& prompt);

// By full prefill in the engine's working KV, whose content is lost. `prompt` is of this engine.
// Not thread-safe. Throws what the two checks and Decoder::prefill throw.
AttentionMap attention_map(Engine& engine, const Prompt& prompt, const std::stop_token& stop = {});

// The same from what the rows of a prompt pay to its segments: [n_layers, rows, segments].
AttentionMap segment_means(std::span<const float> range_attention,
                           std::span<const Segment> segments, size_t n_layers);

// The earlier chunk, of `first` and later ones, that segment `from` attends to most. Needs one.
size_t strongest_chunk(const AttentionMap& map, size_t layer, size_t from, size_t first = 1);

// Shares of 1. The first five sum to 1.
struct AttentionShares {
  double preamble = 0;
  double self = 0;
  double predecessor = 0;      // the chunk right before
  double strongest_other = 0;  // of the earlier chunks that are not the predecessor
  double rest = 0;             // all other earlier chunks
  double sink = 0;             // the strongest earlier chunk, whichever it is
  // Of what goes to earlier chunks; `equal_among`: of each, if none were preferred.
  double predecessor_among = 0;
  double sink_among = 0;
  double equal_among = 0;
};

struct ShareField {
  std::string_view name;  // in JSON
  double AttentionShares::*value;
};
std::span<const ShareField> share_fields();

// Of segment `from`, which has at least two earlier chunks.
AttentionShares shares_of(const AttentionMap& map, size_t layer, size_t from);

// Of one layer over prompts: means over the chunks that have two earlier ones, each chunk counted
// alike.
struct LayerAttention {
  AttentionShares chunks;
  AttentionShares query;           // over prompts
  double predecessor_is_sink = 0;  // share of chunks whose sink is their predecessor
  double sink_agreement = 0;       // share of chunks with the sink of the chunk right before them
  // Share of chunks whose sink stays when another chunk joins the front of the prompt, among those
  // that stood before it all along. Empty: nothing to compare.
  std::optional<double> sink_stays;
};

// Of the prompts that have so many segments, in the form of AttentionMap.
struct MeanMap {
  size_t n_prompts = 0;
  AttentionMap map;
};

struct AttentionReport {
  size_t n_prompts = 0;
  size_t n_chunks = 0;                    // with two earlier ones
  size_t n_compared = 0;                  // chunks that sink_stays is over
  std::optional<double> stays_by_chance;  // sink_stays if sinks were drawn at random
  std::vector<LayerAttention> layers;
  std::vector<MeanMap> maps;  // one for each number of segments, ascending
};

// Adds up prompts of one model.
class AttentionSummary {
 public:
  explicit AttentionSummary(size_t n_layers) : sums_(n_layers) {}

  // `rotated`: the same prompt with its last chunk moved to the front; null where there are fewer
  // than kLeastDriftChunks.
  void add(const AttentionMap& map, const AttentionMap* rotated);

  size_t n_prompts() const { return n_prompts_; }
  AttentionReport report() const;  // needs a prompt

 private:
  struct LayerSums {
    AttentionShares chunks, query;
    double predecessor_is_sink = 0, sink_agreement = 0, sink_stays = 0;
  };
  void add_drift(const AttentionMap& map, const AttentionMap& rotated);

  size_t n_prompts_ = 0, n_chunks_ = 0, n_compared_ = 0;
  double chance_ = 0;
  std::vector<LayerSums> sums_;
  std::map<size_t, MeanMap> maps_;  // by number of segments; sums
};

// The first layer in which the predecessor is the strongest earlier chunk of less than half of the
// chunks, as it is over the layers behind it on average; -1: there is none. `predecessor_is_sink`:
// per layer. The last layer is no turn: nothing follows it.
int32_t turn_layer(std::span<const double> predecessor_is_sink);

// Where to read sinks off: the turn, or the middle layer where there is none; of a model with
// sliding windows the next layer that sees the whole prompt, or the last one that does.
int32_t sink_layer(int32_t turn, std::span<const LayerConfig> layers);

// The paper's picture against the numbers: halves of the model.
struct AttentionReading {
  int32_t turn_layer = -1;  // -1 also where early layers are not local: nothing turns there
  int32_t sink_layer = 0;
  LayerRange early, late;
  double early_predecessor = 0;  // its share of what goes to earlier chunks
  double early_equal = 0;        // what an equal share would be
  double late_other = 0;         // share of chunks whose sink is not their predecessor
  double late_sink = 0;          // the sink's share of what goes to earlier chunks
  double late_equal = 0;
  double late_agreement = 0;
  std::optional<double> late_stays, stays_by_chance;  // empty: nothing to compare

  bool early_is_local() const;
  // Another chunk than the predecessor draws clearly more than an equal share, and is the same one
  // clearly more often than by chance when the prompt changes before it.
  bool late_has_sink() const;
};
AttentionReading read_attention(const AttentionReport& report, const ModelConfig& config);

// One sentence for people.
std::string verdict_text(const AttentionReading& reading);

}  // namespace tessera
