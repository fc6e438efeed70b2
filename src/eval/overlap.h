#pragma once
// How far policies choose the same tokens to recompute: docs/ANALYSIS.md. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "eval/statistics.h"
#include "kv/account.h"

namespace tessera {

// The positions that a plan computes although their KV was loaded, ascending.
std::vector<int32_t> chosen_positions(const ReusePlan& plan);

// |a and b| / |a or b| of ascending positions; 1 where both are empty (Jaccard 1912).
double jaccard(std::span<const int32_t> a, std::span<const int32_t> b);

// The mean of it over two sets of `n_a` and `n_b` of `n` positions, each drawn at random: the
// number in both is hypergeometric.
double random_jaccard(int32_t n, int32_t n_a, int32_t n_b);

// What was chosen for one question.
struct Choices {
  int32_t n_tokens = 0;                      // that could be chosen
  std::vector<std::vector<int32_t>> chosen;  // per variant, ascending positions
};

// Of every pair of variants, [variants, variants], means over questions.
struct OverlapReport {
  size_t n_variants = 0;
  std::vector<Estimate> overlap;
  std::vector<double> by_chance;
  std::vector<double> chosen_share;  // per variant, of the tokens that could be chosen

  const Estimate& at(size_t a, size_t b) const { return overlap[a * n_variants + b]; }
  double chance_at(size_t a, size_t b) const { return by_chance[a * n_variants + b]; }
};
// Needs a question; all with the same variants, and with tokens that could be chosen.
OverlapReport overlap_report(std::span<const Choices> questions, const Resamples& resamples);

}  // namespace tessera
