// When the disk tier walks its folder: not to serve, only for totals, listings and a limit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "kv/chunk_format.h"
#include "store/store_testing.h"
#include "store/tier.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using store_testing::get_like;
using store_testing::key_number;
using store_testing::kGeometry;
using store_testing::make_chunk;
using store_testing::ScratchDir;

class DiskTierScan : public testing::Test {
 protected:
  std::unique_ptr<Tier> open(uint64_t limit_bytes = 0) const {
    return make_tier("disk", {dir_, limit_bytes});
  }
  fs::path path_of(const ChunkKey& key) const { return dir_ / key.hex().substr(0, 2) / key.hex(); }

  ScratchDir scratch_;
  const fs::path dir_ = scratch_.path() / "kv";
  const ChunkKey key_ = key_number(1);
  const ChunkPtr chunk_ = make_chunk(1, 5);
  const uint64_t file_bytes_ = chunk_layout(kGeometry, 5).file_bytes;
  std::unique_ptr<Tier> tier_ = open();
};

TEST_F(DiskTierScan, FirstPutIntoAFolderSweepsThatFolder) {
  const fs::path leftover =
      path_of(key_).parent_path() / fmt::format(".{}.1.0.tmp", key_number(2).hex());
  fs::create_directory(leftover.parent_path());
  std::ofstream(leftover) << "half a blob";
  ASSERT_TRUE(tier_->put(key_number(2), chunk_));  // lies in another folder
  EXPECT_TRUE(fs::exists(leftover));

  ASSERT_TRUE(tier_->put(key_, chunk_));

  EXPECT_FALSE(fs::exists(leftover));
}

// A scan would have shown `lazy` the chunks of its time only, and the other tier writes later.
TEST_F(DiskTierScan, ServingWithoutALimitScansNothing) {
  ASSERT_TRUE(tier_->put(key_, chunk_));
  const auto lazy = open();
  EXPECT_NE(get_like(*lazy, key_, chunk_), nullptr);
  EXPECT_EQ(get_like(*lazy, key_number(9), chunk_), nullptr);
  EXPECT_TRUE(lazy->put(key_number(2), chunk_));
  EXPECT_TRUE(lazy->put(key_number(3), chunk_));
  EXPECT_TRUE(lazy->erase(key_number(3)));
  EXPECT_TRUE(lazy->contains(key_));
  EXPECT_EQ(lazy->verify(key_), Verdict::kGood);

  ASSERT_TRUE(tier_->put(key_number(4), chunk_));

  EXPECT_EQ(lazy->stats().entries, 3U);
  EXPECT_EQ(lazy->stats().bytes, 3 * file_bytes_);
}

// As of an older version, or copied without times.
TEST_F(DiskTierScan, KindThatTheFileTimeDoesNotTellIsLearntByReading) {
  const ChunkPtr in_context = std::make_shared<const KvChunk>(
      kGeometry, store_testing::ids_of(1, 5), Lineage{.recompute_ratio = 0.5F, .sources = 2},
      std::vector<std::byte>(chunk_->payload().begin(), chunk_->payload().end()));
  ASSERT_TRUE(tier_->put(key_number(1), chunk_));
  ASSERT_TRUE(tier_->put(key_number(2), in_context));
  fs::last_write_time(path_of(key_number(2)), fs::file_time_type::clock::now());
  tier_ = open(2 * file_bytes_);
  ASSERT_EQ(tier_->stats().entries, 2U);
  ASSERT_NE(get_like(*tier_, key_number(2), in_context), nullptr);

  ASSERT_TRUE(tier_->put(key_number(3), chunk_));

  EXPECT_TRUE(tier_->contains(key_number(1))) << "though it was not used for longer";
  EXPECT_FALSE(tier_->contains(key_number(2)));
}

TEST_F(DiskTierScan, TotalsStayRightAfterTheScan) {
  ASSERT_TRUE(tier_->put(key_, chunk_));
  ASSERT_TRUE(tier_->put(key_number(2), chunk_));
  tier_ = open();
  ASSERT_EQ(tier_->stats().entries, 2U);

  ASSERT_TRUE(tier_->put(key_number(3), make_chunk(3, 9)));
  ASSERT_TRUE(tier_->put(key_, make_chunk(4, 2)));
  ASSERT_TRUE(tier_->erase(key_number(2)));

  EXPECT_EQ(tier_->stats().entries, 2U);
  EXPECT_EQ(tier_->stats().bytes, open()->stats().bytes);
  EXPECT_EQ(tier_->stats().bytes,
            chunk_layout(kGeometry, 9).file_bytes + chunk_layout(kGeometry, 2).file_bytes);
}

TEST_F(DiskTierScan, ListingOfAFreshTierShowsWhatIsThere) {
  ASSERT_TRUE(tier_->put(key_, chunk_));

  std::vector<ChunkKey> seen;
  open()->for_each([&](const TierEntry& entry) { return seen.push_back(entry.key), true; });

  EXPECT_EQ(seen, std::vector<ChunkKey>{key_});
}

TEST_F(DiskTierScan, FirstPutUnderALimitCountsWhatAnEarlierRunLeft) {
  for (uint32_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(tier_->put(key_number(n), make_chunk(n, 5)));
    fs::last_write_time(path_of(key_number(n)),
                        fs::file_time_type::clock::now() - std::chrono::hours(10 - n));
  }
  tier_ = open(2 * file_bytes_);

  ASSERT_TRUE(tier_->put(key_number(4), make_chunk(4, 5)));

  EXPECT_FALSE(tier_->contains(key_number(1)));
  EXPECT_FALSE(tier_->contains(key_number(2)));
  EXPECT_TRUE(tier_->contains(key_number(3)));
  EXPECT_TRUE(tier_->contains(key_number(4)));
}

// As two processes would: each has scanned before the other writes.
TEST_F(DiskTierScan, TiersOfOneFolderHoldTheLimitTogether) {
  const uint64_t limit = 3 * file_bytes_;
  const auto one = open(limit);
  const auto other = open(limit);
  ASSERT_EQ(one->stats().entries + other->stats().entries, 0U);

  for (uint32_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(one->put(key_number(n), make_chunk(n, 5)));
    ASSERT_TRUE(other->put(key_number(10 + n), make_chunk(10 + n, 5)));
    EXPECT_LE(open()->stats().bytes, limit);
  }

  EXPECT_EQ(open()->stats().bytes, limit);
  EXPECT_TRUE(other->contains(key_number(13)));
}

TEST_F(DiskTierScan, ThreadsOfSeveralTiersHoldTheLimitTogether) {
  const uint64_t limit = 3 * file_bytes_;
  std::vector<std::jthread> writers;
  for (uint32_t writer = 0; writer < 3; ++writer) {
    writers.emplace_back([this, writer, limit] {
      const auto own = open(limit);
      for (uint32_t n = 0; n < 8; ++n) {
        EXPECT_TRUE(own->put(key_number(8 * writer + n), make_chunk(n, 5)));
      }
    });
  }
  writers.clear();

  EXPECT_EQ(open()->stats().bytes, limit);
}

}  // namespace
}  // namespace tessera
