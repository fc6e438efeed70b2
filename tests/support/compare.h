#pragma once
// How far two rows of logits are apart.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace tessera {

inline float max_abs_difference(std::span<const float> a, std::span<const float> b) {
  float worst = a.size() == b.size() ? 0.0F : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float d = std::abs(a[i] - b[i]);
    worst = std::isnan(d) ? INFINITY : std::max(worst, d);
  }
  return worst;
}

// Share of rows whose highest entry is the same.
inline double top1_agreement(std::span<const float> a, std::span<const float> b, size_t n_vocab) {
  size_t same = 0;
  const size_t n_rows = a.size() / n_vocab;
  for (size_t row = 0; row < n_rows; ++row) {
    const auto best = [&](std::span<const float> x) {
      const auto r = x.subspan(row * n_vocab, n_vocab);
      return std::max_element(r.begin(), r.end()) - r.begin();
    };
    same += best(a) == best(b) ? 1 : 0;
  }
  return static_cast<double>(same) / static_cast<double>(n_rows);
}

inline std::vector<int32_t> positions_from(int32_t begin, size_t n) {
  std::vector<int32_t> out(n);
  std::iota(out.begin(), out.end(), begin);
  return out;
}

inline std::vector<int32_t> random_ids(size_t n, int32_t n_vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int32_t> token(0, n_vocab - 1);
  std::vector<int32_t> out(n);
  for (int32_t& id : out) id = token(random);
  return out;
}

}  // namespace tessera
