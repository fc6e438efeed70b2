// What the disk tier says of a blob that it reads with no model at hand.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/file.h"
#include "kv/chunk_format.h"
#include "store/store_testing.h"
#include "store/tier.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using store_testing::key_number;
using store_testing::make_chunk;
using store_testing::ScratchDir;

class DiskTierVerify : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(tier_->put(key_, make_chunk(1, 5))); }

  std::vector<std::byte> stored_bytes() const {
    return read_file(path_).value_or(std::vector<std::byte>(kChunkHeaderBytes));
  }
  void overwrite(const std::vector<std::byte>& bytes) const {
    std::ofstream(path_, std::ios::trunc | std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  }
  // Whatever makes the verdict must not be a failed request for memory, which is no verdict.
  void expect_damaged_and_removed() {
    EXPECT_EQ(tier_->verify(key_), Verdict::kDamaged);
    EXPECT_EQ(tier_->stats().corrupt, 1U);
    EXPECT_EQ(tier_->stats().errors, 0U);
    EXPECT_FALSE(fs::exists(path_));
  }

  ScratchDir scratch_;
  const ChunkKey key_ = key_number(1);
  const fs::path path_ = scratch_.path() / "kv" / key_.hex().substr(0, 2) / key_.hex();
  const std::unique_ptr<Tier> tier_ = make_tier("disk", {.dir = scratch_.path() / "kv"});
};

TEST_F(DiskTierVerify, GoodBlobIsGoodAndOneThatIsNotThereIsGone) {
  EXPECT_EQ(tier_->verify(key_), Verdict::kGood);
  EXPECT_EQ(tier_->verify(key_number(2)), Verdict::kGone);
  fs::remove(path_);

  EXPECT_EQ(tier_->verify(key_), Verdict::kGone);

  EXPECT_EQ(tier_->stats().corrupt, 0U);
}

TEST_F(DiskTierVerify, FlippedBitIsDamage) {
  std::vector<std::byte> bytes = stored_bytes();
  bytes.back() ^= std::byte{1};
  overwrite(bytes);

  expect_damaged_and_removed();
}

// Each size would be a request for more memory than any machine has.
TEST_F(DiskTierVerify, SparseFileIsDamageAndTakesNoMemory) {
  fs::resize_file(path_, uint64_t{1} << 42);

  expect_damaged_and_removed();
}

TEST_F(DiskTierVerify, SparseFileWithoutAHeadIsDamageAndTakesNoMemory) {
  fs::resize_file(path_, 0);
  fs::resize_file(path_, uint64_t{1} << 42);

  expect_damaged_and_removed();
}

TEST_F(DiskTierVerify, SizeThatOnlyTheHeaderClaimsIsDamageAndTakesNoMemory) {
  std::vector<std::byte> bytes = stored_bytes();
  const auto set = [&bytes](size_t at, auto value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  const ChunkLayout claimed = chunk_layout({1 << 12, 1 << 20}, 1 << 16);
  set(16, uint32_t{1} << 16);
  set(20, uint32_t{1} << 12);
  set(24, uint32_t{1} << 20);
  set(80, uint64_t{claimed.sums_offset});
  set(88, uint64_t{claimed.payload_offset});
  set(96, uint64_t{claimed.file_bytes - claimed.payload_offset});
  set(104, uint64_t{claimed.file_bytes});
  const std::optional<ChunkHeader> header = read_header(bytes);
  ASSERT_TRUE(header.has_value());  // nothing else is wrong with it
  ASSERT_GT(header->file_bytes, uint64_t{1} << 49);
  overwrite(bytes);

  expect_damaged_and_removed();
}

}  // namespace
}  // namespace tessera
