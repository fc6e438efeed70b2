// EPIC (LegoLink): the first k tokens of every reused chunk, where its private attention sink lies.
#include <algorithm>
#include <iterator>

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

class Epic : public ReusePolicy {
 public:
  explicit Epic(const PolicyOptions& options) : options_(options) {}

  // The exact match of the first chunk comes first: it lies outside the budget and needs no repair.
  std::vector<Match> lookups() const override { return {Match::kExact, Match::kIndependent}; }

  std::vector<int32_t> select(std::span<const Segment> segments,
                              std::span<const float>) const override {
    std::vector<TokenRange> chunks;
    std::vector<int32_t> sizes;
    for (const Segment& s : segments) {
      if (!is_approximate(s)) continue;
      chunks.push_back(s.range);
      sizes.push_back(s.range.size());
    }
    const std::vector<int32_t> heads = heads_of(sizes, n_loaded_tokens(segments));
    std::vector<int32_t> positions;
    for (size_t i = 0; i < chunks.size(); ++i) {
      for (int32_t k = 0; k < heads[i]; ++k) positions.push_back(chunks[i].begin + k);
    }
    return positions;
  }

 private:
  std::vector<int32_t> heads_of(std::span<const int32_t> sizes, int32_t n_loaded) const {
    if (options_.head_tokens == 0) {
      return heads_of_budget(sizes, recompute_budget(options_.recompute_ratio, n_loaded));
    }
    std::vector<int32_t> heads;
    std::transform(sizes.begin(), sizes.end(), std::back_inserter(heads),
                   [this](int32_t size) { return std::min(size, options_.head_tokens); });
    return heads;
  }

  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<ReusePolicy> make_epic(const PolicyOptions& options) {
  return std::make_unique<Epic>(options);
}

}  // namespace tessera
