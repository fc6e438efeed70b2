#include "text/align.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tessera {
namespace {

using Ranges = std::vector<TokenRange>;

void expect_equal(const Ranges& got, const Ranges& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].begin, expected[i].begin) << i;
    EXPECT_EQ(got[i].end, expected[i].end) << i;
  }
}

TEST(Align, EqualCutsMapOneToOne) {
  const Ranges cuts = {{0, 3}, {3, 4}, {4, 9}};
  expect_equal(overlapping_tokens(cuts, cuts), {{0, 1}, {1, 2}, {2, 3}});
}

TEST(Align, TokenThatReachesIntoTwoGetsBoth) {
  expect_equal(overlapping_tokens(Ranges{{0, 4}, {4, 6}}, Ranges{{0, 2}, {2, 5}, {5, 6}}),
               {{0, 2}, {1, 3}});
}

TEST(Align, TokenOfNoBytesSharesNone) {
  expect_equal(overlapping_tokens(Ranges{{0, 2}, {2, 2}, {2, 4}}, Ranges{{0, 1}, {1, 3}, {3, 4}}),
               {{0, 2}, {1, 1}, {1, 3}});
  expect_equal(overlapping_tokens(Ranges{{0, 4}}, Ranges{{0, 2}, {2, 2}, {2, 4}}), {{0, 3}});
  expect_equal(overlapping_tokens(Ranges{{0, 2}, {2, 4}}, Ranges{{0, 2}, {2, 2}, {2, 4}}),
               {{0, 2}, {2, 3}});
  EXPECT_TRUE(overlapping_tokens(Ranges{}, Ranges{{0, 1}}).empty());
  expect_equal(overlapping_tokens(Ranges{{0, 1}}, Ranges{}), {{0, 0}});
}

Ranges random_cuts(int32_t n_bytes, std::mt19937& random) {
  Ranges out;
  for (int32_t at = 0; at < n_bytes;) {
    const int32_t end = std::min<int32_t>(n_bytes, at + static_cast<int32_t>(random() % 6));
    out.push_back({at, end});  // some of no bytes
    at = end;
  }
  return out;
}

// Against the definition, byte by byte.
TEST(Align, SharesAByteExactlyWhereTheRangeSaysSo) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const auto n_bytes = static_cast<int32_t>(random() % 40);
    const Ranges from = random_cuts(n_bytes, random), to = random_cuts(n_bytes, random);
    const Ranges got = overlapping_tokens(from, to);
    ASSERT_EQ(got.size(), from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      for (size_t j = 0; j < to.size(); ++j) {
        const bool shares = std::max(from[i].begin, to[j].begin) < std::min(from[i].end, to[j].end);
        const auto at = static_cast<int32_t>(j);
        const bool is_in = at >= got[i].begin && at < got[i].end;
        ASSERT_TRUE(is_in || !shares) << round;
        ASSERT_TRUE(!is_in || shares || to[j].size() == 0) << round;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
