#include "eval/reference_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "store/store_testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kVocab = 4;
constexpr ReferenceShape kShape = {.n_vocab = kVocab, .n_room = 9};

FullPrefill reference() {
  FullPrefill r;
  r.answer = "caf\xC3\xA9";
  r.tokens = {3, 0};
  r.logits = {0.1F, -2, 3, 4, 1e-30F, 6, 7, -8};  // [2, kVocab]
  r.gold_nll = 1.0 / 3;
  r.ttft_ms = 123.456;
  r.n_prompt_tokens = 77;
  return r;
}

void expect_same(const std::optional<FullPrefill>& found) {
  ASSERT_TRUE(found.has_value());
  const FullPrefill got = found.value_or(FullPrefill{});
  EXPECT_EQ(got.answer, reference().answer);
  EXPECT_EQ(got.tokens, reference().tokens);
  EXPECT_EQ(got.logits, reference().logits);
  EXPECT_EQ(got.gold_nll, reference().gold_nll);
  EXPECT_EQ(got.ttft_ms, reference().ttft_ms);
  EXPECT_EQ(got.n_prompt_tokens, reference().n_prompt_tokens);
}

TEST(ReferenceCache, GivesBackWhatWasPut) {
  const store_testing::ScratchDir folder;
  const fs::path dir = folder.path() / "eval" / "full";
  EXPECT_FALSE(ReferenceCache(dir, kReferenceLimitBytes).find("ab12", kShape).has_value());

  EXPECT_TRUE(ReferenceCache(dir, kReferenceLimitBytes).put("ab12", reference()));

  expect_same(ReferenceCache(dir, kReferenceLimitBytes).find("ab12", kShape));
  EXPECT_FALSE(ReferenceCache(dir, kReferenceLimitBytes).find("ab13", kShape).has_value());
}

TEST(ReferenceCache, WithoutAFolderKeepsNothing) {
  const ReferenceCache none(fs::path(), kReferenceLimitBytes);
  EXPECT_FALSE(none.put("ab12", reference()));
  EXPECT_FALSE(none.find("ab12", kShape).has_value());
}

TEST(ReferenceCache, FolderThatCannotBeMadeIsAMiss) {
  const store_testing::ScratchDir folder;
  std::ofstream(folder.path() / "file") << "x";
  const ReferenceCache cache(folder.path() / "file" / "below", kReferenceLimitBytes);
  EXPECT_FALSE(cache.put("ab12", reference()));
  EXPECT_FALSE(cache.find("ab12", kShape).has_value());
}

std::vector<std::string> names(const fs::path& dir) {
  std::vector<std::string> out;
  for (const ReferenceFile& file : reference_files(dir))
    out.push_back(file.path.filename().string());
  return out;
}

TEST(ReferenceCache, OldestFilesMakeRoom) {
  const store_testing::ScratchDir folder;
  const fs::path dir = folder.path() / "full";
  const uint64_t each = encode_reference("ab1", reference()).size();
  const ReferenceCache cache(dir, 3 * each);
  const auto now = fs::file_time_type::clock::now();
  int age_s = 10;
  for (const char* key : {"ab1", "ab2", "ab3"}) {
    ASSERT_TRUE(cache.put(key, reference()));
    fs::last_write_time(dir / key, now - std::chrono::seconds(age_s--));
  }
  EXPECT_TRUE(cache.put("ab1", reference())) << "in the place of the older one of that key";
  fs::last_write_time(dir / "ab1", now - std::chrono::seconds(1));
  EXPECT_THAT(names(dir), testing::ElementsAre("ab2", "ab3", "ab1"));

  EXPECT_TRUE(cache.put("ab4", reference()));

  EXPECT_THAT(names(dir), testing::ElementsAre("ab3", "ab1", "ab4"));
  EXPECT_TRUE(ReferenceCache(dir, each).put("ab5", reference()));
  EXPECT_THAT(names(dir), testing::ElementsAre("ab5"));
  EXPECT_FALSE(ReferenceCache(dir, each - 1).put("ab6", reference()));
  EXPECT_THAT(names(dir), testing::ElementsAre("ab5")) << "nothing goes for what cannot fit";
}

TEST(DecodeReference, AnyFlippedBitIsAMiss) {
  const std::vector<std::byte> whole = encode_reference("ab12", reference());
  expect_same(decode_reference(whole, "ab12", kShape));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::byte> bad = whole;
    bad[i] ^= std::byte{0x10};
    EXPECT_FALSE(decode_reference(bad, "ab12", kShape).has_value()) << "byte " << i;
  }
}

TEST(DecodeReference, AnyCutOrAdditionIsAMiss) {
  std::vector<std::byte> bytes = encode_reference("ab12", reference());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode_reference(std::span(bytes).first(n), "ab12", kShape).has_value()) << n;
  }
  bytes.resize(bytes.size() + sizeof(float));
  EXPECT_FALSE(decode_reference(bytes, "ab12", kShape).has_value());
}

TEST(DecodeReference, OfAnotherKeyOrShapeIsAMiss) {
  const std::vector<std::byte> whole = encode_reference("ab12", reference());
  EXPECT_FALSE(decode_reference(whole, "ab13", kShape).has_value());
  EXPECT_FALSE(decode_reference(whole, "ab12", {.n_vocab = 16, .n_room = 9}).has_value())
      << "half a row";
  EXPECT_FALSE(decode_reference(whole, "ab12", {.n_vocab = 2, .n_room = 9}).has_value())
      << "no token 3, and four rows";
  EXPECT_FALSE(decode_reference(whole, "ab12", {.n_vocab = kVocab, .n_room = 0}).has_value())
      << "the second row stands behind the end of the context";
}

// The sums are right, but no engine gives this.
TEST(DecodeReference, WhatCannotBeIsAMiss) {
  FullPrefill more_rows = reference(), fewer_rows = reference(), no_rows = reference(),
              no_time = reference();
  more_rows.tokens = {3};
  fewer_rows.tokens = {3, 0, 1};
  no_rows.logits.clear();
  no_time.ttft_ms = 0;
  for (const FullPrefill& bad : {more_rows, fewer_rows, no_rows, no_time})
    EXPECT_FALSE(decode_reference(encode_reference("k", bad), "k", kShape).has_value());
}

TEST(DecodeReference, EmptyAnswerHasOneRow) {
  FullPrefill empty = reference();
  empty.answer.clear();
  empty.tokens.clear();
  empty.logits.resize(kVocab);
  EXPECT_TRUE(decode_reference(encode_reference("k", empty), "k", kShape).has_value());
}

}  // namespace
}  // namespace tessera
