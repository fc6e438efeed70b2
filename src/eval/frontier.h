#pragma once
// Which of several choices are worth making where two things count. Pure; thread-safe.
#include <span>
#include <vector>

namespace tessera {

// Of both, less is better. Not NaN.
struct CostPair {
  double first = 0;
  double second = 0;
};

// For each point whether no other dominates it: is at most as dear in both costs and less so in
// one. Points that are equal do not dominate each other.
std::vector<bool> on_frontier(std::span<const CostPair> points);

}  // namespace tessera
