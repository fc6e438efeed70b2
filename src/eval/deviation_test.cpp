#include "eval/deviation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/kv_deviation.h"

namespace tessera {
namespace {

std::vector<std::byte> halves(const std::vector<float>& values) {
  std::vector<std::byte> out;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    out.push_back(static_cast<std::byte>(bits & 0xff));
    out.push_back(static_cast<std::byte>(bits >> 8));
  }
  return out;
}

// One layer of two numbers: a prompt of three tokens, K then V.
const KvGeometry kOneLayer = {.n_layers = 1, .kv_dim = 2};
std::vector<std::byte> three_tokens() { return halves({9, 9, 3, 4, 0, 2, 9, 9, 1, 0, 5, 0}); }

TEST(KvDeviation, IsTheDistanceOfTheRowsThatAreNamed) {
  const std::vector<std::byte> now = three_tokens(), then = halves({4, 3, 0, 2, 0, 1, 5, 0});

  const KvDeviation k = deviation_between(kOneLayer, {now, 3, 1}, {then, 2, 0}, 0);
  const KvDeviation v = deviation_between(kOneLayer, {now, 3, 1}, {then, 2, 0}, 1);

  EXPECT_DOUBLE_EQ(k.relative(), 2.0 / 25);  // (3, 4) and (4, 3)
  EXPECT_DOUBLE_EQ(k.cosine(), 24.0 / 25);
  EXPECT_DOUBLE_EQ(v.relative(), 2.0);  // (1, 0) and (0, 1)
  EXPECT_DOUBLE_EQ(v.cosine(), 0.0);
}

TEST(KvDeviation, NothingInPlaceOfNothingIsNoDeviation) {
  const std::vector<std::byte> none = halves({0, 0, 0, 0}), some = halves({1, 0, 0, 1});

  const KvDeviation same = deviation_between(kOneLayer, {none, 1, 0}, {none, 1, 0}, 0);
  const KvDeviation lost = deviation_between(kOneLayer, {some, 1, 0}, {none, 1, 0}, 0);

  EXPECT_EQ(same.relative(), 0);
  EXPECT_EQ(same.cosine(), 1);
  EXPECT_EQ(lost.relative(), 1);
  EXPECT_EQ(lost.cosine(), 0);
}

TEST(Deviation, IsTheMeanOverTheTokensOfTheChunks) {
  const std::vector<std::byte> full = three_tokens(), reused = halves({4, 3, 0, 2, 0, 1, 5, 0});
  const std::vector<ReusedChunk> chunks = {{{1, 3}, reused}};

  const PromptDeviation out = deviation_of(kOneLayer, full, chunks);

  ASSERT_EQ(out.matrices.size(), 2U);
  EXPECT_DOUBLE_EQ(out.matrices[0].error, 0.04);  // 2/25 and 0
  EXPECT_DOUBLE_EQ(out.matrices[0].cosine, 0.98);
  EXPECT_DOUBLE_EQ(out.matrices[1].error, 1.0);  // 2 and 0
  EXPECT_DOUBLE_EQ(out.matrices[1].cosine, 0.5);
  EXPECT_DOUBLE_EQ(out.head_tokens_share, 1.0);
}

// Of two chunks of ten and one token; every token is off by the same, but for one late one.
TEST(Deviation, FirstTokensOfEveryChunkCarryTheirShare) {
  const KvGeometry geometry = {.n_layers = 1, .kv_dim = 1};
  std::vector<float> now(22, 1), first(20, 0), second(2, 0);
  first[9] = -1;  // K of the tenth token: an error of 4 in place of 1
  first[10] = 1;  // V of the first token: none
  const std::vector<std::byte> full = halves(now), a = halves(first), b = halves(second);
  const std::vector<ReusedChunk> chunks = {{{0, 10}, a}, {{10, 11}, b}};

  const PromptDeviation out = deviation_of(geometry, full, chunks);

  EXPECT_DOUBLE_EQ(out.head_tokens_share, 9.0 / 11);
  EXPECT_DOUBLE_EQ(out.matrices[0].head_share, 9.0 / 14);
  EXPECT_DOUBLE_EQ(out.matrices[1].head_share, 8.0 / 10);
}

TEST(Deviation, WithoutAnErrorTheShareIsThatOfTheTokens) {
  const KvGeometry geometry = {.n_layers = 1, .kv_dim = 1};
  const std::vector<std::byte> same = halves(std::vector<float>(32, 2));
  const std::vector<ReusedChunk> chunks = {{{0, 16}, same}};

  const PromptDeviation out = deviation_of(geometry, same, chunks);

  EXPECT_EQ(out.matrices[0].error, 0);
  EXPECT_EQ(out.matrices[0].cosine, 1);
  EXPECT_EQ(out.matrices[0].head_share, 0.5);
}

TEST(DeviationReport, PromptsAndLayersCountAlike) {
  const PromptDeviation one = {{{1, 0, 0}, {2, 0, 0}, {3, 0, 0}, {4, 0, 0}}, 0.25};
  const PromptDeviation two = {{{3, 1, 1}, {2, 1, 1}, {5, 1, 1}, {8, 1, 1}}, 0.75};
  const std::vector<PromptDeviation> prompts = {one, two};

  const DeviationReport out = deviation_report(prompts, Resamples(2, 100, 0));

  ASSERT_EQ(out.matrices.size(), 4U);
  EXPECT_DOUBLE_EQ(out.matrices[0].error.value, 2);
  EXPECT_DOUBLE_EQ(out.matrices[3].error.value, 6);
  EXPECT_DOUBLE_EQ(out.k.error.value, 3);  // (1 + 3 + 3 + 5) / 4
  EXPECT_DOUBLE_EQ(out.v.error.value, 4);  // (2 + 4 + 2 + 8) / 4
  EXPECT_DOUBLE_EQ(out.k.cosine.value, 0.5);
  EXPECT_EQ(out.k.error.n, 2U);
  EXPECT_LE(out.k.error.low, out.k.error.value);
  EXPECT_DOUBLE_EQ(out.head_tokens_share, 0.5);
}

}  // namespace
}  // namespace tessera
