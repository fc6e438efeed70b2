#pragma once
// Draws that are the same with every compiler and library. Pure but for the generator they advance.
#include <cstdint>
#include <random>

namespace tessera {

// A number below `n`, which must be positive, without bias. std::uniform_int_distribution differs
// between libraries.
inline uint64_t draw_below(std::mt19937_64& random, uint64_t n) {
  const uint64_t limit = std::mt19937_64::max() - std::mt19937_64::max() % n;
  uint64_t drawn = random();
  while (drawn >= limit) drawn = random();
  return drawn % n;
}

}  // namespace tessera
