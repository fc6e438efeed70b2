#include "eval/frontier.h"

#include <algorithm>

namespace tessera {
namespace {

bool dominates(const CostPair& a, const CostPair& b) {
  return a.first <= b.first && a.second <= b.second && (a.first < b.first || a.second < b.second);
}

}  // namespace

std::vector<bool> on_frontier(std::span<const CostPair> points) {
  std::vector<bool> out;
  out.reserve(points.size());
  for (const CostPair& point : points) {
    out.push_back(std::ranges::none_of(
        points, [&](const CostPair& other) { return dominates(other, point); }));
  }
  return out;
}

}  // namespace tessera
