#include "eval/popularity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace tessera {

std::vector<size_t> request_counts(const EvalSet& set) {
  std::map<std::pair<std::string_view, std::string_view>, size_t> by_passage;
  for (const Sample& sample : set.samples) {
    for (const PassageText& p : sample.passages) ++by_passage[{p.title, p.text}];
  }
  std::vector<size_t> out;
  out.reserve(by_passage.size());
  for (const auto& [passage, count] : by_passage) out.push_back(count);
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

double served_share(std::span<const size_t> counts, double share) {
  const size_t all = std::accumulate(counts.begin(), counts.end(), size_t{0});
  CHECK(all > 0 && share >= 0 && share <= 1);
  // 0.1 of 30 must not become 4 by rounding.
  const auto n =
      static_cast<ptrdiff_t>(std::ceil(share * static_cast<double>(counts.size()) - 1e-9));
  const size_t served = std::accumulate(counts.begin(), counts.begin() + n, size_t{0});
  return static_cast<double>(served) / static_cast<double>(all);
}

}  // namespace tessera
