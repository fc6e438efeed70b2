#pragma once
// The bytes of a chunk at rest; docs/CHUNK_FORMAT.md describes them one by one.
//
// Foreign bytes are never trusted: every size is derived from the geometry and the ids of whoever
// asks, and what a header says is only compared with them. Bytes that do not fit are a named
// reject, never an exception. Pure functions, callable from any thread.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kv/chunk.h"

namespace tessera {

inline constexpr size_t kChunkHeaderBytes = 128;

// Why bytes are not the chunk that was asked for.
enum class ChunkReject {
  kNone,
  kLength,    // shorter or longer than the chunk asked for has to be
  kMagic,     // no chunk at all
  kVersion,   // another version of the format
  kKey,       // the chunk of another key
  kGeometry,  // another number of layers, vector length or dtype
  kIds,       // other tokens
  kHeader,    // offsets, sizes or lineage that no writer makes
  kHeaderChecksum,
  kLayerChecksum,
};
std::string_view reject_name(ChunkReject reject);

// Where the parts lie. The head is everything in front of the payload.
struct ChunkLayout {
  size_t sums_offset = 0;  // one XXH3-64 per layer
  size_t payload_offset =
      0;                   // a multiple of 64; the head's own XXH3-64 lies in the 8 bytes before it
  size_t layer_bytes = 0;  // K and V of one layer
  size_t file_bytes = 0;
};
ChunkLayout chunk_layout(const KvGeometry& geometry, int32_t n_tokens);

// Token ids as u32, little-endian: in keys and at rest.
std::vector<std::byte> bytes_of_ids(std::span<const int32_t> ids);

// The head of `chunk` under `key`. The file is this followed by chunk.payload().
std::vector<std::byte> chunk_head(const ChunkKey& key, const KvChunk& chunk);

// Head and payload in one piece.
std::vector<std::byte> serialise_chunk(const ChunkKey& key, const KvChunk& chunk);

// What somebody asks for. Spans and references must outlive the call.
struct ExpectedChunk {
  const ChunkKey& key;
  KvGeometry geometry;
  std::span<const int32_t> ids;
};

// A head that was compared with what was asked for; lineage and sums mean something only with
// kNone.
struct CheckedHead {
  ChunkReject reject = ChunkReject::kNone;
  Lineage lineage;
  std::vector<uint64_t> layer_sums;
};
// `bytes` are the first payload_offset bytes of a file of `file_bytes`, or all there are when it is
// shorter.
CheckedHead check_head(std::span<const std::byte> bytes, uint64_t file_bytes,
                       const ExpectedChunk& expected);

struct ParsedChunk {
  ChunkPtr chunk;  // null unless reject is kNone
  ChunkReject reject = ChunkReject::kNone;
};
ParsedChunk parse_chunk(std::span<const std::byte> bytes, const ExpectedChunk& expected);

// What the fixed header says, for listings. Its values lie within sane bounds and fit each other,
// but no checksum was compared: do not load by it.
struct ChunkHeader {
  ChunkKey key;
  KvGeometry geometry;
  int32_t n_tokens = 0;
  Lineage lineage;
  uint64_t file_bytes = 0;
};
// `bytes` hold at least the first kChunkHeaderBytes of a file; more are ignored.
std::optional<ChunkHeader> read_header(std::span<const std::byte> bytes);

// Compares every checksum of a whole file, with no model at hand: shape and ids are the file's own.
ChunkReject verify_chunk(std::span<const std::byte> bytes, const ChunkKey& key);

}  // namespace tessera
