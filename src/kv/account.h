#pragma once
// Where every token of a prompt came from, and what one request cost. Plain values.
#include <cstdint>
#include <span>
#include <vector>

#include "kv/segment.h"

namespace tessera {

// Every prompt token is exactly one of the five; they sum to N (DESIGN.md section 2).
struct Account {
  int32_t exact = 0;        // loaded, computed behind these very tokens
  int32_t soft = 0;         // loaded from a like context and kept
  int32_t independent = 0;  // loaded from another context and kept
  int32_t recomputed = 0;   // loaded, then computed again
  int32_t fresh = 0;        // never stored

  int32_t total() const { return exact + soft + independent + recomputed + fresh; }
  int32_t cached() const { return exact + soft + independent; }
  int32_t rows() const { return recomputed + fresh; }
  bool operator==(const Account&) const = default;
};

// What a request computes: every position of a segment that was missed, and the chosen ones of the
// others.
struct ReusePlan {
  std::vector<Segment> segments;
  std::vector<int32_t> rows;  // positions, ascending
};

// The part of `rows`, ascending positions, that lies in `range`, as numbers of rows.
TokenRange rows_within(std::span<const int32_t> rows, TokenRange range);

// `recompute`: ascending positions inside approximate segments.
ReusePlan make_plan(std::vector<Segment> segments, std::span<const int32_t> recompute);
Account account_of(const ReusePlan& plan);

}  // namespace tessera
