#include "store/lru_index.h"

#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace tessera {
namespace {

using store_testing::key_number;

std::optional<ChunkKey> victim_of(const LruIndex& index) {
  return index.victim(0, KvKind::kAnchored);
}

TEST(LruIndex, OldestIsTheOneNotUsedForLongest) {
  LruIndex index;
  EXPECT_EQ(victim_of(index), std::nullopt);
  for (uint32_t n = 0; n < 3; ++n) index.set(key_number(n), 10, KvKind::kAnchored);

  index.touch(key_number(0), KvKind::kAnchored);
  EXPECT_EQ(victim_of(index), key_number(1));
  index.set(key_number(1), 10, KvKind::kAnchored);
  EXPECT_EQ(victim_of(index), key_number(2));
  EXPECT_TRUE(index.erase(key_number(2)));
  EXPECT_EQ(victim_of(index), key_number(0));
}

TEST(LruIndex, BytesAreTheSumOfTheEntries) {
  LruIndex index;
  index.set(key_number(1), 10, KvKind::kAnchored);
  index.set(key_number(2), 20, KvKind::kInContext);
  index.set(key_number(1), 5, KvKind::kAnchored);

  EXPECT_EQ(index.bytes(), 25U);
  EXPECT_EQ(index.size(), 2U);
  EXPECT_TRUE(index.erase(key_number(2)));
  EXPECT_FALSE(index.erase(key_number(2)));
  EXPECT_EQ(index.bytes(), 5U);
  EXPECT_EQ(index.keys(), std::vector<ChunkKey>{key_number(1)});
}

TEST(LruIndex, InContextKeepsAnEighthAndWhatComesCounts) {
  LruIndex index;
  for (uint32_t n = 0; n < 7; ++n) index.set(key_number(n), 10, KvKind::kAnchored);
  index.set(key_number(8), 9, KvKind::kInContext);

  EXPECT_EQ(index.victim(1, KvKind::kInContext), key_number(0)) << "10 of 80 is an eighth";
  EXPECT_EQ(index.victim(2, KvKind::kInContext), key_number(8)) << "11 of 81 is more";
  EXPECT_EQ(index.victim(10, KvKind::kAnchored), key_number(0));
  index.set(key_number(9), 2, KvKind::kInContext);
  EXPECT_EQ(index.victim(1, KvKind::kAnchored), key_number(8)) << "11 of 82 is more";
  index.touch(key_number(8), KvKind::kInContext);
  EXPECT_EQ(index.victim(1, KvKind::kAnchored), key_number(9));
}

TEST(LruIndex, UseCorrectsTheKind) {
  LruIndex index;
  for (uint32_t n = 0; n < 3; ++n) index.set(key_number(n), 10, KvKind::kAnchored);

  index.touch(key_number(2), KvKind::kInContext);

  EXPECT_EQ(victim_of(index), key_number(2));
  EXPECT_EQ(index.bytes(), 30U);
  EXPECT_EQ(index.keys().size(), 3U);
}

TEST(LruIndex, KvOfOneKindAloneGoesByAge) {
  LruIndex index;
  for (uint32_t n = 0; n < 3; ++n) index.set(key_number(n), 10, KvKind::kInContext);
  index.touch(key_number(0), KvKind::kInContext);
  EXPECT_EQ(victim_of(index), key_number(1));
  EXPECT_TRUE(index.erase(key_number(1)));
  EXPECT_EQ(victim_of(index), key_number(2));
}

TEST(LruIndex, TouchOfAMissingEntryAddsNothing) {
  LruIndex index;
  index.touch(key_number(1), KvKind::kAnchored);

  EXPECT_EQ(index.size(), 0U);
  EXPECT_FALSE(index.contains(key_number(1)));
}

}  // namespace
}  // namespace tessera
