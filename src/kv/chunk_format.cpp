#include "kv/chunk_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace tessera {
namespace {

// The line end shows a file that went through a text-mode copy.
constexpr std::string_view kMagic = "TSRAKV\r\n";
constexpr uint32_t kFormatVersion = 1;
constexpr uint32_t kDtypeF16 = 1;
constexpr size_t kSumBytes = 8;
constexpr size_t kPayloadAlignment =
    64;  // a cache line, and what vector loads of a mapped file like best

// Offsets in the fixed header.
constexpr size_t kVersionAt = 8;
constexpr size_t kHeaderBytesAt = 12;
constexpr size_t kTokensAt = 16;
constexpr size_t kLayersAt = 20;
constexpr size_t kKvDimAt = 24;
constexpr size_t kDtypeAt = 28;
constexpr size_t kKeyAt = 32;
constexpr size_t kDepthAt = 64;
constexpr size_t kRatioAt = 68;
constexpr size_t kIdsOffsetAt = 72;
constexpr size_t kSumsOffsetAt = 80;
constexpr size_t kPayloadOffsetAt = 88;
constexpr size_t kPayloadBytesAt = 96;
constexpr size_t kFileBytesAt = 104;
constexpr size_t kSourcesAt = 112;
constexpr size_t kReservedAt = 116;

// Bounds of a listing. Their product with 4 bytes for K and V is below 2^58, so no size derived
// from them wraps.
constexpr uint32_t kMaxTokens = 1U << 24;
constexpr uint32_t kMaxLayers = 1U << 12;
constexpr uint32_t kMaxKvDim = 1U << 20;

using Bytes = std::span<const std::byte>;

template <typename Int>
void store(std::span<std::byte> bytes, size_t offset, Int value) {
  for (size_t i = 0; i < sizeof(Int); ++i)
    bytes[offset + i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename Int>
Int load(Bytes bytes, size_t offset) {
  Int value = 0;
  for (size_t i = 0; i < sizeof(Int); ++i)
    value |= std::to_integer<Int>(bytes[offset + i]) << (8 * i);
  return value;
}

constexpr size_t align_up(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

Lineage lineage_in(Bytes header) {
  return {load<uint32_t>(header, kDepthAt), std::bit_cast<float>(load<uint32_t>(header, kRatioAt)),
          load<uint32_t>(header, kSourcesAt)};
}

// Also false for a NaN.
bool is_sane(const Lineage& lineage) {
  constexpr uint32_t kAllSources = (uint32_t{1} << (static_cast<uint32_t>(Match::kExact) + 1)) - 1;
  return lineage.recompute_ratio >= 0.0F && lineage.recompute_ratio <= 1.0F &&
         lineage.sources <= kAllSources;
}

bool has_offsets_of(Bytes header, const ChunkLayout& layout) {
  return load<uint64_t>(header, kIdsOffsetAt) == kChunkHeaderBytes &&
         load<uint64_t>(header, kSumsOffsetAt) == layout.sums_offset &&
         load<uint64_t>(header, kPayloadOffsetAt) == layout.payload_offset &&
         load<uint64_t>(header, kPayloadBytesAt) == layout.file_bytes - layout.payload_offset &&
         load<uint64_t>(header, kFileBytesAt) == layout.file_bytes &&
         load<uint32_t>(header, kReservedAt) == 0 && load<uint64_t>(header, kReservedAt + 4) == 0;
}

ChunkReject check_kind(Bytes header) {
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return ChunkReject::kMagic;
  if (load<uint32_t>(header, kVersionAt) != kFormatVersion) return ChunkReject::kVersion;
  if (load<uint32_t>(header, kHeaderBytesAt) != kChunkHeaderBytes) return ChunkReject::kHeader;
  return ChunkReject::kNone;
}

ChunkReject check_fields(Bytes header, const ExpectedChunk& expected, const ChunkLayout& layout) {
  if (const ChunkReject reject = check_kind(header); reject != ChunkReject::kNone) return reject;
  const Bytes key = header.subspan(kKeyAt, expected.key.digest.size());
  if (!std::equal(key.begin(), key.end(), expected.key.digest.begin())) return ChunkReject::kKey;
  if (load<uint32_t>(header, kLayersAt) != uint32_t(expected.geometry.n_layers) ||
      load<uint32_t>(header, kKvDimAt) != uint32_t(expected.geometry.kv_dim) ||
      load<uint32_t>(header, kDtypeAt) != kDtypeF16) {
    return ChunkReject::kGeometry;
  }
  if (load<uint32_t>(header, kTokensAt) != expected.ids.size()) return ChunkReject::kIds;
  const bool is_ours = has_offsets_of(header, layout) && is_sane(lineage_in(header));
  return is_ours ? ChunkReject::kNone : ChunkReject::kHeader;
}

}  // namespace

std::string_view reject_name(ChunkReject reject) {
  switch (reject) {
    case ChunkReject::kNone:
      return "none";
    case ChunkReject::kLength:
      return "length";
    case ChunkReject::kMagic:
      return "magic";
    case ChunkReject::kVersion:
      return "version";
    case ChunkReject::kKey:
      return "key";
    case ChunkReject::kGeometry:
      return "geometry";
    case ChunkReject::kIds:
      return "ids";
    case ChunkReject::kHeader:
      return "header";
    case ChunkReject::kHeaderChecksum:
      return "header checksum";
    case ChunkReject::kLayerChecksum:
      return "layer checksum";
  }
  return "unknown";
}

ChunkLayout chunk_layout(const KvGeometry& geometry, int32_t n_tokens) {
  ChunkLayout layout;
  layout.sums_offset = align_up(kChunkHeaderBytes + sizeof(uint32_t) * size_t(n_tokens), kSumBytes);
  const size_t head_bytes = layout.sums_offset + kSumBytes * (size_t(geometry.n_layers) + 1);
  layout.payload_offset = align_up(head_bytes, kPayloadAlignment);
  layout.layer_bytes = 2 * geometry.layer_bytes(n_tokens);
  layout.file_bytes = layout.payload_offset + size_t(geometry.n_layers) * layout.layer_bytes;
  return layout;
}

std::vector<std::byte> bytes_of_ids(std::span<const int32_t> ids) {
  std::vector<std::byte> bytes(sizeof(uint32_t) * ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    store(std::span(bytes), sizeof(uint32_t) * i, uint32_t(ids[i]));
  return bytes;
}

std::vector<std::byte> chunk_head(const ChunkKey& key, const KvChunk& chunk) {
  const ChunkLayout layout = chunk_layout(chunk.geometry(), chunk.n_tokens());
  std::vector<std::byte> head(layout.payload_offset);
  const std::span<std::byte> out(head);
  std::memcpy(head.data(), kMagic.data(), kMagic.size());
  store(out, kVersionAt, kFormatVersion);
  store(out, kHeaderBytesAt, uint32_t(kChunkHeaderBytes));
  store(out, kTokensAt, uint32_t(chunk.n_tokens()));
  store(out, kLayersAt, uint32_t(chunk.geometry().n_layers));
  store(out, kKvDimAt, uint32_t(chunk.geometry().kv_dim));
  store(out, kDtypeAt, kDtypeF16);
  std::copy(key.digest.begin(), key.digest.end(), head.begin() + kKeyAt);
  store(out, kDepthAt, chunk.lineage().approximation_depth);
  store(out, kRatioAt, std::bit_cast<uint32_t>(chunk.lineage().recompute_ratio));
  store(out, kSourcesAt, chunk.lineage().sources);
  store(out, kIdsOffsetAt, uint64_t(kChunkHeaderBytes));
  store(out, kSumsOffsetAt, uint64_t(layout.sums_offset));
  store(out, kPayloadOffsetAt, uint64_t(layout.payload_offset));
  store(out, kPayloadBytesAt, uint64_t(chunk.payload().size()));
  store(out, kFileBytesAt, uint64_t(layout.file_bytes));
  const std::vector<std::byte> ids = bytes_of_ids(chunk.ids());
  std::copy(ids.begin(), ids.end(), head.begin() + kChunkHeaderBytes);
  for (size_t layer = 0; layer < size_t(chunk.geometry().n_layers); ++layer) {
    const Bytes kv = chunk.payload().subspan(layer * layout.layer_bytes, layout.layer_bytes);
    store(out, layout.sums_offset + kSumBytes * layer, xxh3_64(kv));
  }
  const size_t sum_at = layout.payload_offset - kSumBytes;
  store(out, sum_at, xxh3_64(Bytes(head).first(sum_at)));
  return head;
}

std::vector<std::byte> serialise_chunk(const ChunkKey& key, const KvChunk& chunk) {
  std::vector<std::byte> bytes = chunk_head(key, chunk);
  bytes.insert(bytes.end(), chunk.payload().begin(), chunk.payload().end());
  return bytes;
}

CheckedHead check_head(Bytes bytes, uint64_t file_bytes, const ExpectedChunk& expected) {
  CHECK(expected.geometry.n_layers > 0 && expected.geometry.kv_dim > 0);
  const ChunkLayout layout = chunk_layout(expected.geometry, int32_t(expected.ids.size()));
  CheckedHead head;
  head.reject = ChunkReject::kLength;
  if (bytes.size() < kChunkHeaderBytes) return head;
  head.reject = check_fields(bytes.first(kChunkHeaderBytes), expected, layout);
  if (head.reject != ChunkReject::kNone) return head;
  head.reject = ChunkReject::kLength;
  if (bytes.size() < layout.payload_offset || file_bytes != layout.file_bytes) return head;
  const size_t sum_at = layout.payload_offset - kSumBytes;
  head.reject = ChunkReject::kHeaderChecksum;
  if (load<uint64_t>(bytes, sum_at) != xxh3_64(bytes.first(sum_at))) return head;
  // The key was compared, but a hash alone never decides.
  const std::vector<std::byte> ids = bytes_of_ids(expected.ids);
  head.reject = ChunkReject::kIds;
  if (!std::equal(ids.begin(), ids.end(), bytes.begin() + kChunkHeaderBytes)) return head;
  head.reject = ChunkReject::kNone;
  head.lineage = lineage_in(bytes);
  for (size_t layer = 0; layer < size_t(expected.geometry.n_layers); ++layer) {
    head.layer_sums.push_back(load<uint64_t>(bytes, layout.sums_offset + kSumBytes * layer));
  }
  return head;
}

ParsedChunk parse_chunk(Bytes bytes, const ExpectedChunk& expected) {
  const CheckedHead head = check_head(bytes, bytes.size(), expected);
  if (head.reject != ChunkReject::kNone) return {nullptr, head.reject};
  const ChunkLayout layout = chunk_layout(expected.geometry, int32_t(expected.ids.size()));
  const Bytes payload = bytes.subspan(layout.payload_offset);
  for (size_t layer = 0; layer < head.layer_sums.size(); ++layer) {
    const Bytes kv = payload.subspan(layer * layout.layer_bytes, layout.layer_bytes);
    if (xxh3_64(kv) != head.layer_sums[layer]) return {nullptr, ChunkReject::kLayerChecksum};
  }
  return {std::make_shared<const KvChunk>(
              expected.geometry, std::vector<int32_t>(expected.ids.begin(), expected.ids.end()),
              head.lineage, std::vector<std::byte>(payload.begin(), payload.end())),
          ChunkReject::kNone};
}

std::optional<ChunkHeader> read_header(Bytes bytes) {
  if (bytes.size() < kChunkHeaderBytes || check_kind(bytes) != ChunkReject::kNone)
    return std::nullopt;
  const uint32_t n_tokens = load<uint32_t>(bytes, kTokensAt);
  const uint32_t n_layers = load<uint32_t>(bytes, kLayersAt);
  const uint32_t kv_dim = load<uint32_t>(bytes, kKvDimAt);
  const bool is_bounded = n_tokens <= kMaxTokens && n_layers > 0 && n_layers <= kMaxLayers &&
                          kv_dim > 0 && kv_dim <= kMaxKvDim &&
                          load<uint32_t>(bytes, kDtypeAt) == kDtypeF16;
  if (!is_bounded) return std::nullopt;
  ChunkHeader header;
  header.geometry = {int32_t(n_layers), int32_t(kv_dim)};
  header.n_tokens = int32_t(n_tokens);
  header.lineage = lineage_in(bytes);
  const ChunkLayout layout = chunk_layout(header.geometry, header.n_tokens);
  if (!has_offsets_of(bytes, layout) || !is_sane(header.lineage)) return std::nullopt;
  header.file_bytes = layout.file_bytes;
  std::copy_n(bytes.begin() + kKeyAt, header.key.digest.size(), header.key.digest.begin());
  return header;
}

ChunkReject verify_chunk(Bytes bytes, const ChunkKey& key) {
  if (bytes.size() < kChunkHeaderBytes) return ChunkReject::kLength;
  if (const ChunkReject kind = check_kind(bytes); kind != ChunkReject::kNone) return kind;
  const std::optional<ChunkHeader> header = read_header(bytes);
  if (!header) return ChunkReject::kHeader;
  // From here on the sizes of the header are those of the bytes at hand.
  if (header->file_bytes != bytes.size()) return ChunkReject::kLength;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < size_t(header->n_tokens); ++i) {
    ids.push_back(int32_t(load<uint32_t>(bytes, kChunkHeaderBytes + sizeof(uint32_t) * i)));
  }
  return parse_chunk(bytes, {key, header->geometry, ids}).reject;
}

}  // namespace tessera
