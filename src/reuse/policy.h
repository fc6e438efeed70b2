#pragma once
// A reuse policy decides, per prompt, which matches to ask the store for and which loaded tokens to
// compute again. Pure: no I/O, no clock, no tensors. Stateless after construction, so safe from any
// thread.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kv/segment.h"

namespace tessera {

// What a policy reads besides the layout: one score per position of the prompt. The engine runs the
// probe that makes it (src/engine/probe.h).
enum class Evidence {
  kNone,
  kQueryAttention,  // attention that the rows of the query pay to each position
  kValueDeviation,  // squared distance of V at layer 1 from what it would be in full prefill
  kKvDeviation,     // relative squared distance of K and V from full prefill, over all layers
};

class ReusePolicy {
 public:
  virtual ~ReusePolicy() = default;

  // Matches worth asking the store for, best first; empty: load nothing.
  virtual std::vector<Match> lookups() const = 0;

  virtual Evidence evidence() const { return Evidence::kNone; }

  // Positions of loaded tokens to recompute, ascending and without repeats, only in segments that
  // are approximate matches. The engine adds the fresh ones. `score` has one value per position of
  // the prompt; not read when evidence() is kNone.
  virtual std::vector<int32_t> select(std::span<const Segment> segments,
                                      std::span<const float> score) const = 0;
};

struct PolicyOptions {
  double recompute_ratio = 0.15;  // share of loaded approximate tokens, 0..1
  int32_t head_tokens = 0;        // epic: tokens per chunk; 0: floor(budget / chunks)
  int32_t window = 15;            // query_aware: tokens of the running mean, odd; 1: none
  double head_share = 0;          // query_aware: share of the budget for chunk heads, 0..1
  uint64_t seed = 0;              // random
};

// Tokens of approximate matches, and the budget ceil(ratio * n_loaded) of DESIGN.md section 2.
int32_t n_loaded_tokens(std::span<const Segment> segments);
int32_t recompute_budget(double ratio, int32_t n_loaded);

// The `budget` positions of approximate matches with the highest score, ascending. Of equal scores
// the earlier position is taken. `taken` (ascending) are in already and count.
std::vector<int32_t> highest_positions(std::span<const Segment> segments,
                                       std::span<const float> score, int32_t budget,
                                       std::vector<int32_t> taken = {});
// The first tokens of every approximate match, as even as they can be, `budget` in all: ascending.
std::vector<int32_t> chunk_heads(std::span<const Segment> segments, int32_t budget);

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;  // one line for --help and the docs
  bool is_control = false;   // for measurements only
};
std::vector<PolicyInfo> policies();
// What `auto` stands for (DESIGN.md section 6.3).
inline constexpr std::string_view kDefaultPolicy = "query_aware";
// Throws Error(kInvalidRequest) for an unknown name or a ratio outside 0..1, naming what is known.
std::unique_ptr<ReusePolicy> make_policy(std::string_view name, const PolicyOptions& options);

}  // namespace tessera
