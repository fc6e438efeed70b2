#pragma once
// How far few passages serve many questions: docs/ANALYSIS.md. Pure; thread-safe.
#include <cstddef>
#include <span>
#include <vector>

#include "eval/runner.h"

namespace tessera {

// How many of the questions have each passage, highest first; equal passages are one.
std::vector<size_t> request_counts(const EvalSet& set);

// The share of all requests that go to the first `share` (0..1) of the passages, rounded up to
// whole ones. `counts`: highest first, not all 0.
double served_share(std::span<const size_t> counts, double share);

}  // namespace tessera
