#pragma once
// Span completion of SpecCache (its section 2.3; DESIGN.md section 6.1, step 3): neighbours with
// like scores form a span, and a span that is mostly chosen is chosen whole. Pure.
#include <cstdint>
#include <span>
#include <vector>

#include "kv/segment.h"

namespace tessera {

// The paper bounds the completed set by a size that it does not name.
enum class SpanReading {
  kNone,     // no completion: the highest scores
  kLiteral,  // at most the budget, cut by score: which gives back the highest scores
  kSeeded,   // 0.85 of the budget by score, completed, then filled or cut by the mean of the span
  kLarger,   // the highest scores, completed, at most 1.2 times the budget
};

struct SpanOptions {
  SpanReading reading = SpanReading::kSeeded;
  double smooth = 0.4;       // neighbours join a span while their scores differ by less, relatively
  double cover = 0.7;        // share of a span that must be chosen for the rest to be
  int32_t max_tokens = 16;   // of a span
  double clip_quantile = 1;  // scores above this quantile count as it, so that a few outliers do
                             // not make all the others look alike; 1: as in the paper, none do
};

// How many tokens may be chosen in all, for a budget of `budget`.
int32_t span_limit(const SpanOptions& options, int32_t budget);

// Which of the scorer's tokens to prefer: one value per token, higher is sooner, 0 for tokens that
// stand in none of `runs` and, under kLarger, for those that must not be chosen. `runs` are the
// candidates, ascending: tokens of one run are neighbours in the text. `budget` counts tokens of
// the scorer.
std::vector<float> span_preference(std::span<const float> value, std::span<const TokenRange> runs,
                                   int32_t budget, const SpanOptions& options);

}  // namespace tessera
