#pragma once
// A reuse policy decides, per prompt, which matches to ask the store for and which loaded tokens to
// compute again. Pure: no I/O, no clock, no tensors. Stateless after construction, so safe from any
// thread.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/segment.h"
#include "reuse/layer_part.h"
#include "reuse/spans.h"

namespace tessera {

// What a policy reads besides the layout. The engine gathers it: from the target (engine/probe.h)
// or from a small model beside it (engine/scorer.h).
enum class Evidence {
  kNone,
  kQueryAttention,     // attention that the rows of the query pay to each position
  kValueDeviation,     // squared distance of V at layer 1 from what it would be in full prefill
  kKvDeviation,        // relative squared distance of K and V from full prefill, over all layers
  kScorerAttention,    // attention that the rows of the query pay to each token, in the scorer
  kScorerNorms,        // L2 norm of each token's hidden state in the scorer, which reads the prompt
  kStoredScorerNorms,  // the same where the scorer read the chunk alone, once
  kOutwardAttention,   // share of a token's attention in layer 0 that goes to other chunks
};
inline bool is_of_scorer(Evidence e) {
  return e >= Evidence::kScorerAttention && e <= Evidence::kStoredScorerNorms;
}

// One value per unit. A unit is a position of the prompt, or one of the scorer's tokens, which then
// covers the positions whose text it shares a byte with.
struct Scores {
  std::vector<float> value;        // [units]
  std::vector<TokenRange> covers;  // [units], ascending; empty: unit i is position i
};

// Which keys a recomputed row attends to.
enum class AttentionMask {
  kByPosition,   // those that stand before it
  kBottomRight,  // as if all rows were the prompt's last: what the reference code of CacheBlend
                 // does
};

class ReusePolicy {
 public:
  virtual ~ReusePolicy() = default;

  // Matches worth asking the store for, best first; empty: load nothing.
  virtual std::vector<Match> lookups() const = 0;

  virtual Evidence evidence() const { return Evidence::kNone; }
  // Of the model that is looked at; for evidence that has a choice of layers.
  virtual LayerPart layers() const { return {}; }
  virtual AttentionMask mask() const { return AttentionMask::kByPosition; }
  // Whether KV that approximate reuse has made counts as exact behind the same tokens, and serves
  // soft matches however often it was made over such KV. Else once is the most.
  virtual bool trusts_approximate() const { return false; }

  // Positions of loaded tokens to recompute, ascending and without repeats, only in segments that
  // are approximate matches. The engine adds the fresh ones. `scores` is not read when evidence()
  // is kNone or when nothing approximate was loaded.
  virtual std::vector<int32_t> select(std::span<const Segment> segments,
                                      const Scores& scores) const = 0;
};

struct PolicyOptions {
  double recompute_ratio = 0.15;   // share of loaded approximate tokens, 0..1
  int32_t head_tokens = 0;         // epic: tokens per chunk; 0: floor(budget / chunks)
  int32_t window = 15;             // query_aware: tokens of the running mean, odd; 1: none
  double head_share = 0;           // query_aware: share of the budget for chunk heads, 0..1
  uint64_t seed = 0;               // random
  std::string layers = {};         // query_aware, speccache: as layer_part() reads it; empty: the
                                   // upper half, the last third
  bool scorer_attention = false;   // query_aware: the scorer's attention, not the target's
  bool online_scores = false;      // speccache: the scorer reads the prompt, not each chunk alone
  SpanOptions spans = {};          // speccache
  bool bottom_right_mask = false;  // cacheblend: AttentionMask::kBottomRight
  double soft_ratio = 0.08;        // adacache: of soft matches; alpha() is what is used
  bool hard_as_paper = false;      // adacache: KV made by approximate reuse counts as exact behind
                                   // the same tokens

  // Soft matches are worth no more work than independent ones: at most beta, the recompute ratio.
  double alpha() const { return std::min(soft_ratio, recompute_ratio); }
};

// Tokens of approximate matches, and the budget ceil(ratio * n_loaded) of DESIGN.md section 2.
int32_t n_loaded_tokens(std::span<const Segment> segments);
int32_t recompute_budget(double ratio, int32_t n_loaded);

// The `budget` positions of approximate matches with the highest score, ascending. Of equal scores
// the earlier position is taken. `taken` (ascending) are in already and count.
std::vector<int32_t> highest_positions(std::span<const Segment> segments,
                                       std::span<const float> score, int32_t budget,
                                       std::vector<int32_t> taken = {});
// One value per position of the prompt: the highest of the units that cover it, 0 where none does.
std::vector<float> position_scores(std::span<const Segment> segments, const Scores& scores);
// The first tokens of every approximate match, as even as they can be, `budget` in all: ascending.
std::vector<int32_t> chunk_heads(std::span<const Segment> segments, int32_t budget);

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;  // one line for --help and the docs
  bool is_control = false;   // for measurements only
  bool is_exact = false;     // gives what full prefill gives
  bool reads_ratio = true;   // else nothing that was loaded is recomputed, or everything
};
std::vector<PolicyInfo> policies();
// What `auto` stands for (DESIGN.md section 6.3).
inline constexpr std::string_view kDefaultPolicy = "query_aware";
// Throws Error(kInvalidRequest) for an unknown name or a ratio outside 0..1, naming what is known.
std::unique_ptr<ReusePolicy> make_policy(std::string_view name, const PolicyOptions& options);

}  // namespace tessera
