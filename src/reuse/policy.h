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

// What a policy reads besides the layout: one score per position. The engine runs the probe that
// makes it.
enum class Evidence { kNone, kScorerNorm, kValueDeviation, kCrossChunkAttention, kQueryAttention };

class ReusePolicy {
 public:
  virtual ~ReusePolicy() = default;

  // Matches worth asking the store for, best first; empty: load nothing.
  virtual std::vector<Match> lookups() const = 0;

  virtual Evidence evidence() const { return Evidence::kNone; }

  // Positions of loaded tokens to recompute, ascending and without repeats, only in segments that
  // are approximate matches. The engine adds the fresh ones. `score` has one value per position of
  // the prompt, or none when evidence() is kNone.
  virtual std::vector<int32_t> select(std::span<const Segment> segments,
                                      std::span<const float> score) const = 0;
};

struct PolicyOptions {
  double recompute_ratio = 0.15;  // share of loaded approximate tokens, 0..1
  int32_t head_tokens = 0;        // epic: tokens per chunk; 0: floor(budget / chunks)
};

// Tokens of approximate matches, and the budget ceil(ratio * n_loaded) of DESIGN.md section 2.
int32_t n_loaded_tokens(std::span<const Segment> segments);
int32_t recompute_budget(double ratio, int32_t n_loaded);

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;  // one line for --help and the docs
};
std::vector<PolicyInfo> policies();
// Throws Error(kInvalidRequest) for an unknown name or a ratio outside 0..1, naming what is known.
std::unique_ptr<ReusePolicy> make_policy(std::string_view name, const PolicyOptions& options);

}  // namespace tessera
