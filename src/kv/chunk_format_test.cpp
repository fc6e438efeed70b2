#include "kv/chunk_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "base/hash.h"

namespace tessera {
namespace {

constexpr KvGeometry kGeometry{2, 3};
const std::vector<int32_t> kIds = {65, 321, 7};

ChunkKey key_number(unsigned n) {
  ChunkKey key;
  for (size_t i = 0; i < key.digest.size(); ++i) key.digest[i] = static_cast<std::byte>(n + i);
  return key;
}

KvChunk make_chunk(const KvGeometry& geometry, const std::vector<int32_t>& ids,
                   const Lineage& lineage) {
  std::vector<std::byte> payload(KvChunk::payload_bytes(geometry, int32_t(ids.size())));
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7 + 1);
  return {geometry, ids, lineage, payload};
}

class ChunkFormat : public testing::Test {
 protected:
  ChunkReject reject_of(std::span<const std::byte> bytes) const {
    const ParsedChunk parsed = parse_chunk(bytes, {key_, kGeometry, kIds});
    EXPECT_EQ(parsed.chunk == nullptr, parsed.reject != ChunkReject::kNone);
    return parsed.reject;
  }
  ChunkReject reject_with(size_t offset, uint64_t value, size_t n_bytes) const {
    std::vector<std::byte> bytes = bytes_;
    std::memcpy(bytes.data() + offset, &value, n_bytes);
    return reject_of(bytes);
  }

  const ChunkKey key_ = key_number(1);
  const KvChunk chunk_ = make_chunk(kGeometry, kIds, {2, 0.25F});
  const std::vector<std::byte> bytes_ = serialise_chunk(key_, chunk_);
  const ChunkLayout layout_ = chunk_layout(kGeometry, 3);
};

TEST_F(ChunkFormat, ParsedChunkEqualsTheSerialisedOne) {
  const ParsedChunk parsed = parse_chunk(bytes_, {key_, kGeometry, kIds});

  ASSERT_EQ(parsed.reject, ChunkReject::kNone);
  EXPECT_EQ(parsed.chunk->geometry(), kGeometry);
  EXPECT_EQ(parsed.chunk->lineage(), (Lineage{2, 0.25F}));
  EXPECT_TRUE(std::ranges::equal(parsed.chunk->ids(), kIds));
  EXPECT_TRUE(std::ranges::equal(parsed.chunk->payload(), chunk_.payload()));
}

TEST_F(ChunkFormat, EveryShapeRoundTripsWithAnAlignedPayload) {
  for (const int32_t n_layers : {1, 7, 8}) {
    for (const int32_t n_tokens : {0, 1, 2, 63, 64, 65}) {
      const KvGeometry geometry{n_layers, 5};
      const std::vector<int32_t> ids(static_cast<size_t>(n_tokens), -1);
      const KvChunk chunk = make_chunk(geometry, ids, {});
      const std::vector<std::byte> bytes = serialise_chunk(key_, chunk);

      EXPECT_EQ(parse_chunk(bytes, {key_, geometry, ids}).reject, ChunkReject::kNone);
      EXPECT_EQ(verify_chunk(bytes, key_), ChunkReject::kNone);
      EXPECT_EQ(chunk_layout(geometry, n_tokens).payload_offset % 64, 0U);
      EXPECT_EQ(chunk_layout(geometry, n_tokens).file_bytes, bytes.size());
    }
  }
}

// Reviewed by hand against docs/CHUNK_FORMAT.md. A change here makes old files unreadable: raise
// the version instead.
TEST_F(ChunkFormat, HeadIsTheDocumentedBytes) {
  const std::string expected =
      "545352414b560d0a"  // magic
      "01000000"
      "80000000"  // version, header bytes
      "03000000"
      "02000000"
      "03000000"
      "01000000"  // tokens, layers, kv_dim, f16
      "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"  // key
      "02000000"
      "0000803e"  // depth 2, ratio 0.25
      "8000000000000000"
      "9000000000000000"  // offsets of ids and sums
      "c000000000000000"
      "4800000000000000"
      "0801000000000000"                  // payload: offset, bytes; file bytes
      "00000000000000000000000000000000"  // reserved
      "41000000"
      "41010000"
      "07000000"
      "00000000";  // ids, padded to 8
  ASSERT_GE(bytes_.size(), layout_.payload_offset);

  EXPECT_EQ(to_hex(std::span(bytes_).first(expected.size() / 2)), expected);

  const std::span<const std::byte> sums = std::span(bytes_).subspan(layout_.sums_offset);
  for (size_t layer = 0; layer < 2; ++layer) {
    const uint64_t sum = xxh3_64(chunk_.payload().subspan(layer * 36, 36));
    EXPECT_EQ(std::memcmp(sums.data() + size_t(8) * layer, &sum, 8), 0);
  }
  const uint64_t head_sum = xxh3_64(std::span(bytes_).first(184));
  EXPECT_EQ(std::memcmp(bytes_.data() + 184, &head_sum, 8), 0);
}

TEST_F(ChunkFormat, EveryFlippedBitIsRejected) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> bytes = bytes_;
      bytes[i] ^= std::byte{1} << bit;
      EXPECT_NE(reject_of(bytes), ChunkReject::kNone) << "byte " << i << " bit " << bit;
      EXPECT_NE(verify_chunk(bytes, key_), ChunkReject::kNone) << "byte " << i << " bit " << bit;
    }
  }
  EXPECT_EQ(reject_of(bytes_), ChunkReject::kNone);
}

TEST_F(ChunkFormat, EveryOtherLengthIsRejected) {
  for (size_t n = 0; n < bytes_.size(); ++n) {
    EXPECT_EQ(reject_of(std::span(bytes_).first(n)), ChunkReject::kLength) << n;
  }
  std::vector<std::byte> longer = bytes_;
  longer.push_back(std::byte{0});
  EXPECT_EQ(reject_of(longer), ChunkReject::kLength);
  EXPECT_EQ(verify_chunk(longer, key_), ChunkReject::kLength);
}

TEST_F(ChunkFormat, RejectsNameTheirReason) {
  EXPECT_EQ(reject_with(0, 'X', 1), ChunkReject::kMagic);
  EXPECT_EQ(reject_with(8, 2, 4), ChunkReject::kVersion);
  EXPECT_EQ(reject_with(12, 64, 4), ChunkReject::kHeader);
  EXPECT_EQ(reject_with(16, 4, 4), ChunkReject::kIds);
  EXPECT_EQ(reject_with(20, 3, 4), ChunkReject::kGeometry);
  EXPECT_EQ(reject_with(24, 4, 4), ChunkReject::kGeometry);
  EXPECT_EQ(reject_with(28, 2, 4), ChunkReject::kGeometry);
  EXPECT_EQ(reject_with(32, 0, 1), ChunkReject::kKey);
  EXPECT_EQ(reject_with(64, 0, 4), ChunkReject::kHeaderChecksum);   // claims to be exact
  EXPECT_EQ(reject_with(68, 0x7FC00000, 4), ChunkReject::kHeader);  // NaN
  for (const size_t offset : {72, 80, 88, 96, 104, 116, 120})
    EXPECT_EQ(reject_with(offset, 1, 8), ChunkReject::kHeader) << offset;
  EXPECT_EQ(reject_with(112, 1, 4), ChunkReject::kHeaderChecksum);
  EXPECT_EQ(reject_with(112, 16, 4), ChunkReject::kHeader);  // a source that there is not
  EXPECT_EQ(reject_with(128, 66, 1), ChunkReject::kHeaderChecksum);
  EXPECT_EQ(reject_with(layout_.payload_offset, 0, 1), ChunkReject::kLayerChecksum);
  EXPECT_EQ(reject_name(ChunkReject::kLayerChecksum), "layer checksum");
}

TEST_F(ChunkFormat, HostileNumbersAreOnlyCompared) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 32,
                               uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()}) {
    for (size_t offset = 8; offset < 32; offset += 4) {
      if (offset == 8 && uint32_t(value) == 1) continue;   // the version it has
      if (offset == 28 && uint32_t(value) == 1) continue;  // the dtype it has
      EXPECT_NE(reject_with(offset, value, 4), ChunkReject::kNone) << offset << ' ' << value;
    }
    for (size_t offset = 72; offset < 112; offset += 8) {
      EXPECT_EQ(reject_with(offset, value, 8), ChunkReject::kHeader) << offset << ' ' << value;
    }
  }
}

TEST_F(ChunkFormat, AnotherRequestIsRejectedAndItsOwnAccepted) {
  const ChunkKey other_key = key_number(2);
  EXPECT_EQ(parse_chunk(bytes_, {other_key, kGeometry, kIds}).reject, ChunkReject::kKey);
  EXPECT_EQ(parse_chunk(bytes_, {key_, {2, 4}, kIds}).reject, ChunkReject::kGeometry);
  EXPECT_EQ(parse_chunk(bytes_, {key_, {3, 3}, kIds}).reject, ChunkReject::kGeometry);
  // The same bytes in all, differently cut.
  EXPECT_EQ(parse_chunk(bytes_, {key_, {3, 2}, kIds}).reject, ChunkReject::kGeometry);
  const std::vector<int32_t> other_ids = {65, 65, 7};
  EXPECT_EQ(parse_chunk(bytes_, {key_, kGeometry, other_ids}).reject, ChunkReject::kIds);
  EXPECT_EQ(parse_chunk(bytes_, {key_, kGeometry, std::span(kIds).first(2)}).reject,
            ChunkReject::kIds);

  EXPECT_EQ(parse_chunk(bytes_, {key_, kGeometry, kIds}).reject, ChunkReject::kNone);
}

TEST_F(ChunkFormat, SwappedLayersAreRejected) {
  std::vector<std::byte> bytes = bytes_;
  std::swap_ranges(bytes.end() - 72, bytes.end() - 36, bytes.end() - 36);

  EXPECT_EQ(reject_of(bytes), ChunkReject::kLayerChecksum);
}

TEST_F(ChunkFormat, ListingReadsTheHeaderAlone) {
  const ChunkHeader header =
      read_header(std::span(bytes_).first(kChunkHeaderBytes)).value_or(ChunkHeader{});

  EXPECT_EQ(header.key, key_);
  EXPECT_EQ(header.geometry, kGeometry);
  EXPECT_EQ(header.n_tokens, 3);
  EXPECT_EQ(header.lineage, (Lineage{2, 0.25F}));
  EXPECT_EQ(header.file_bytes, bytes_.size());
}

TEST_F(ChunkFormat, ListingRefusesWhatIsOutOfBounds) {
  EXPECT_EQ(read_header(std::span(bytes_).first(kChunkHeaderBytes - 1)), std::nullopt);
  for (size_t offset = 0; offset < kChunkHeaderBytes; offset += 4) {
    if (offset >= 32 && offset < 68) continue;  // key and depth: any value is one
    std::vector<std::byte> bytes = bytes_;
    std::memset(bytes.data() + offset, 0xFF, 4);
    EXPECT_EQ(read_header(bytes), std::nullopt) << offset;
    EXPECT_NE(verify_chunk(bytes, key_), ChunkReject::kNone) << offset;
  }
}

// A header may claim a huge chunk and be consistent with itself: then its claim must not be
// believed either.
TEST_F(ChunkFormat, VerifyBelievesNoSizeThatTheFileHasNot) {
  std::vector<std::byte> bytes = bytes_;
  const uint32_t n_tokens = 1U << 24;
  const ChunkLayout huge = chunk_layout(kGeometry, int32_t(n_tokens));
  const uint64_t offsets[] = {huge.sums_offset, huge.payload_offset,
                              huge.file_bytes - huge.payload_offset, huge.file_bytes};
  std::memcpy(bytes.data() + 16, &n_tokens, 4);
  std::memcpy(bytes.data() + 80, offsets, sizeof(offsets));
  ASSERT_TRUE(read_header(bytes).has_value());

  EXPECT_EQ(verify_chunk(bytes, key_), ChunkReject::kLength);
}

TEST_F(ChunkFormat, RandomBytesAndRandomDamageAreRejected) {
  std::mt19937_64 random(20261129);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes = bytes_;
    bytes.resize(bytes.size() - (round % 4 == 0 ? random() % 100 : 0));
    const size_t n_edits = 1 + random() % 8;
    for (size_t i = 0; i < n_edits; ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (std::ranges::equal(bytes, bytes_)) continue;

    EXPECT_NE(reject_of(bytes), ChunkReject::kNone) << "round " << round;
    EXPECT_NE(verify_chunk(bytes, key_), ChunkReject::kNone) << "round " << round;
  }
}

}  // namespace
}  // namespace tessera
