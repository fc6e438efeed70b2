// What several policies choose by.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "reuse/policy.h"

namespace tessera {
namespace {

// Tokens to take from the head of each chunk: the same k = floor(budget / chunks) for all, as in
// the paper, and what is left goes round the chunks one token at a time from the first, to those
// that still have tokens. When every chunk is longer than k only the remainder of the division is
// left, so chunks differ by one token at most. When some are shorter, their unused share goes to
// the others: the budget is spent in full, and so ratio 1 selects every token, which makes it equal
// to full prefill (oracle O2).
std::vector<int32_t> heads_of_budget(std::span<const int32_t> sizes, int32_t budget) {
  const auto n_chunks = static_cast<int32_t>(sizes.size());
  std::vector<int32_t> heads;
  int32_t left = budget;
  for (const int32_t size : sizes) {
    heads.push_back(std::min(size, budget / n_chunks));
    left -= heads.back();
  }
  while (left > 0) {
    for (size_t i = 0; i < sizes.size() && left > 0; ++i) {
      if (heads[i] == sizes[i]) continue;
      ++heads[i];
      --left;
    }
  }
  return heads;
}

}  // namespace

std::vector<int32_t> highest_positions(std::span<const Segment> segments,
                                       std::span<const float> score, int32_t budget,
                                       std::vector<int32_t> taken) {
  std::vector<int32_t> candidates;
  for (const Segment& s : segments) {
    if (!is_approximate(s)) continue;
    CHECK(static_cast<size_t>(s.range.end) <= score.size());
    for (int32_t at = s.range.begin; at < s.range.end; ++at) {
      if (!std::binary_search(taken.begin(), taken.end(), at)) candidates.push_back(at);
    }
  }
  const auto n = std::min(candidates.size(), static_cast<size_t>(std::max<int32_t>(
                                                 0, budget - static_cast<int32_t>(taken.size()))));
  const auto nth = candidates.begin() + static_cast<ptrdiff_t>(n);
  std::partial_sort(candidates.begin(), nth, candidates.end(), [&](int32_t a, int32_t b) {
    const float of_a = score[static_cast<size_t>(a)], of_b = score[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  taken.insert(taken.end(), candidates.begin(), nth);
  std::sort(taken.begin(), taken.end());
  return taken;
}

std::vector<float> position_scores(std::span<const Segment> segments, const Scores& scores) {
  const auto n = segments.empty() ? size_t{0} : static_cast<size_t>(segments.back().range.end);
  if (scores.covers.empty() && scores.value.size() == n) return scores.value;
  CHECK(scores.covers.size() == scores.value.size());
  std::vector<float> out(n, 0.0F);
  for (size_t unit = 0; unit < scores.covers.size(); ++unit) {
    const TokenRange covered = scores.covers[unit];
    CHECK(covered.begin >= 0 && static_cast<size_t>(covered.end) <= n);
    for (auto at = static_cast<size_t>(covered.begin); at < static_cast<size_t>(covered.end); ++at)
      out[at] = std::max(out[at], scores.value[unit]);
  }
  return out;
}

std::vector<int32_t> chunk_heads(std::span<const Segment> segments, int32_t budget) {
  std::vector<TokenRange> chunks;
  std::vector<int32_t> sizes;
  for (const Segment& s : segments) {
    if (!is_approximate(s)) continue;
    chunks.push_back(s.range);
    sizes.push_back(s.range.size());
  }
  CHECK(budget >= 0 && budget <= std::accumulate(sizes.begin(), sizes.end(), 0));
  const std::vector<int32_t> heads = heads_of_budget(sizes, budget);
  std::vector<int32_t> positions;
  for (size_t i = 0; i < chunks.size(); ++i) {
    for (int32_t k = 0; k < heads[i]; ++k) positions.push_back(chunks[i].begin + k);
  }
  return positions;
}

}  // namespace tessera
