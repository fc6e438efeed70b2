#include "store/chunk_store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <thread>

#include "store/store_testing.h"

namespace tessera {
namespace {

using store_testing::is_same;
using store_testing::key_number;
using store_testing::kGeometry;
using store_testing::make_chunk;
using store_testing::ScratchDir;

class ChunkStoreTest : public testing::Test {
 protected:
  std::unique_ptr<ChunkStore> open(uint64_t ram_bytes = 0) const {
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(make_tier("ram", {{}, ram_bytes}));
    tiers.push_back(make_tier("disk", {scratch_.path() / "kv", 0}));
    return std::make_unique<ChunkStore>(std::move(tiers));
  }
  static ChunkStore::Found find(ChunkStore& store, uint32_t number) {
    return store.find(key_number(number), kGeometry, make_chunk(number, 4)->ids());
  }

  ScratchDir scratch_;
};

TEST_F(ChunkStoreTest, EmptyStoreMisses) {
  const auto store = open();

  const ChunkStore::Found found = find(*store, 1);

  EXPECT_EQ(found.chunk, nullptr);
  EXPECT_EQ(found.tier, "");
  EXPECT_FALSE(store->contains(key_number(1)));
  EXPECT_FALSE(store->erase(key_number(1)));
}

TEST_F(ChunkStoreTest, PutLandsInEveryTierAndTheFastestAnswers) {
  const auto store = open();

  ASSERT_TRUE(store->put(key_number(1), make_chunk(1, 4)));

  for (Tier* tier : store->tiers()) EXPECT_TRUE(tier->contains(key_number(1))) << tier->name();
  EXPECT_EQ(find(*store, 1).tier, "ram");
}

// O1: whatever tier it comes from, the bytes are the same.
TEST_F(ChunkStoreTest, HitInASlowTierIsTheSameBytesAndMovesUp) {
  const ChunkPtr chunk = make_chunk(1, 4);
  ASSERT_TRUE(open()->put(key_number(1), chunk));
  const auto store = open();

  const ChunkStore::Found first = find(*store, 1);
  const ChunkStore::Found second = find(*store, 1);

  EXPECT_EQ(first.tier, "disk");
  EXPECT_EQ(second.tier, "ram");
  EXPECT_TRUE(is_same(first.chunk, chunk));
  EXPECT_TRUE(is_same(second.chunk, chunk));
}

TEST_F(ChunkStoreTest, ChunkTooLargeForRamStillComesFromDisk) {
  const auto store = open(1);

  ASSERT_TRUE(store->put(key_number(1), make_chunk(1, 4)));

  EXPECT_EQ(find(*store, 1).tier, "disk");
  EXPECT_EQ(find(*store, 1).tier, "disk");
}

TEST_F(ChunkStoreTest, EraseReachesEveryTier) {
  const auto store = open();
  ASSERT_TRUE(store->put(key_number(1), make_chunk(1, 4)));
  ASSERT_TRUE(store->put(key_number(2), make_chunk(2, 4)));

  EXPECT_TRUE(store->erase(key_number(1)));

  EXPECT_EQ(find(*store, 1).chunk, nullptr);
  for (Tier* tier : store->tiers()) EXPECT_FALSE(tier->contains(key_number(1))) << tier->name();
  EXPECT_NE(find(*store, 2).chunk, nullptr);
}

TEST_F(ChunkStoreTest, DiskThatCannotBeWrittenIsSaidByPutButRamServes) {
  std::ofstream(scratch_.path() / "kv") << "a file where the folder should be";
  const auto store = open();

  EXPECT_FALSE(store->put(key_number(1), make_chunk(1, 4)));

  EXPECT_EQ(find(*store, 1).tier, "ram");
  EXPECT_EQ(find(*store, 2).chunk, nullptr);
}

// A tier in which somebody erases the chunk just after it was read.
class ErasedAfterGet : public Tier {
 public:
  ErasedAfterGet(std::unique_ptr<Tier> tier, std::function<void()> erase)
      : tier_(std::move(tier)), erase_(std::move(erase)) {}

  std::string_view name() const override { return "erased"; }
  ChunkPtr get(const ChunkKey& key, const KvGeometry& geometry,
               std::span<const int32_t> ids) override {
    ChunkPtr chunk = tier_->get(key, geometry, ids);
    erase_();
    return chunk;
  }
  bool put(const ChunkKey& key, ChunkPtr chunk) override { return tier_->put(key, chunk); }
  bool erase(const ChunkKey& key) override { return tier_->erase(key); }
  bool contains(const ChunkKey& key) override { return tier_->contains(key); }
  void for_each(const std::function<bool(const TierEntry&)>& visit) override {
    tier_->for_each(visit);
  }
  TierStats stats() override { return tier_->stats(); }

 private:
  std::unique_ptr<Tier> tier_;
  std::function<void()> erase_;
};

TEST_F(ChunkStoreTest, ChunkErasedWhileItIsReadIsNotCopiedUp) {
  bool is_erased_meanwhile = true;
  std::unique_ptr<ChunkStore> store;
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(make_tier("ram", {}));
  tiers.push_back(std::make_unique<ErasedAfterGet>(make_tier("ram", {}), [&] {
    if (is_erased_meanwhile) store->erase(key_number(1));
  }));
  store = std::make_unique<ChunkStore>(std::move(tiers));
  Tier& slow = *store->tiers()[1];

  slow.put(key_number(1), make_chunk(1, 4));
  EXPECT_NE(find(*store, 1).chunk, nullptr);
  EXPECT_FALSE(store->contains(key_number(1)));

  is_erased_meanwhile = false;
  slow.put(key_number(1), make_chunk(1, 4));
  EXPECT_NE(find(*store, 1).chunk, nullptr);
  EXPECT_TRUE(store->tiers()[0]->contains(key_number(1)));
}

TEST_F(ChunkStoreTest, ErasedChunkIsNotBroughtBackByAReader) {
  for (uint32_t round = 0; round < 20; ++round) {
    ASSERT_TRUE(open()->put(key_number(round), make_chunk(round, 4)));
    const auto store = open();
    std::jthread reader([&] {
      for (int i = 0; i < 3; ++i) find(*store, round);
    });
    EXPECT_TRUE(store->erase(key_number(round)));
    reader.join();

    EXPECT_FALSE(store->contains(key_number(round)));
  }
}

TEST_F(ChunkStoreTest, NoTiersAtAllMissAndKeepNothing) {
  ChunkStore store({});

  EXPECT_FALSE(store.put(key_number(1), make_chunk(1, 4)));
  EXPECT_EQ(find(store, 1).chunk, nullptr);
}

}  // namespace
}  // namespace tessera
