#include "store/lru_index.h"

#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace tessera {
namespace {

using store_testing::key_number;

TEST(LruIndex, OldestIsTheOneNotUsedForLongest) {
  LruIndex index;
  EXPECT_EQ(index.victim(), std::nullopt);
  for (uint32_t n = 0; n < 3; ++n) index.set(key_number(n), 10, KvKind::kAnchored);

  index.touch(key_number(0));
  EXPECT_EQ(index.victim(), key_number(1));
  index.set(key_number(1), 10, KvKind::kAnchored);
  EXPECT_EQ(index.victim(), key_number(2));
  EXPECT_TRUE(index.erase(key_number(2)));
  EXPECT_EQ(index.victim(), key_number(0));
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

TEST(LruIndex, InContextGoesFirstBeyondAnEighthThenTheOldestAnchored) {
  LruIndex index;
  for (uint32_t n = 0; n < 8; ++n) index.set(key_number(n), 10, KvKind::kAnchored);
  EXPECT_EQ(index.victim(), key_number(0));
  index.set(key_number(8), 10, KvKind::kInContext);
  EXPECT_EQ(index.victim(), key_number(0)) << "an eighth of 90 is not passed";

  index.set(key_number(9), 10, KvKind::kInContext);
  EXPECT_EQ(index.victim(), key_number(8));
  index.touch(key_number(8));
  EXPECT_EQ(index.victim(), key_number(9));
  index.set(key_number(9), 1, KvKind::kInContext);
  EXPECT_EQ(index.victim(), key_number(0)) << "11 of 91";
  EXPECT_TRUE(index.erase(key_number(8)));
  index.set(key_number(9), 10, KvKind::kAnchored);
  EXPECT_EQ(index.bytes(), 90U);
  EXPECT_EQ(index.keys().size(), index.size());
}

TEST(LruIndex, KvOfOneKindAloneGoesByAge) {
  LruIndex index;
  for (uint32_t n = 0; n < 3; ++n) index.set(key_number(n), 10, KvKind::kInContext);
  index.touch(key_number(0));
  EXPECT_EQ(index.victim(), key_number(1));
  EXPECT_TRUE(index.erase(key_number(1)));
  EXPECT_EQ(index.victim(), key_number(2));
}

TEST(LruIndex, TouchOfAMissingEntryAddsNothing) {
  LruIndex index;
  index.touch(key_number(1));

  EXPECT_EQ(index.size(), 0U);
  EXPECT_FALSE(index.contains(key_number(1)));
}

}  // namespace
}  // namespace tessera
