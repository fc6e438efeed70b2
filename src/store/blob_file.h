#pragma once
// Chunk blobs as files. A path is not trusted: only a regular file of this process's user is read,
// links are not followed and nothing blocks. Replacing a blob is a rename, so whoever has it open
// keeps reading the old one. Thread-safe.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "kv/chunk.h"
#include "kv/chunk_format.h"
#include "store/lru_index.h"

namespace tessera {

enum class BlobOutcome {
  kFound,
  kMissing,
  kCorrupt,  // there, but not readable or not what was asked for
  kRefused,  // the system is out of something (descriptors, memory); says nothing about the blob
};

struct BlobRead {
  BlobOutcome outcome = BlobOutcome::kMissing;
  ChunkPtr chunk;  // null unless kFound
  uint64_t file_bytes = 0;
};

// Reads and checks the blob; the payload is read straight into the chunk, one layer at a time.
BlobRead read_blob(const std::filesystem::path& path, const ExpectedChunk& expected);

// The fixed header of the blob, if it has a valid one and the size that it claims.
std::optional<ChunkHeader> read_blob_header(const std::filesystem::path& path);

// Compares every checksum of the blob with no model at hand.
BlobOutcome verify_blob(const std::filesystem::path& path, const ChunkKey& key);

// Writes the blob whole or not at all; false and the reason in `error` when the system refuses.
bool write_blob(const std::filesystem::path& path, const ChunkKey& key, const KvChunk& chunk,
                std::string& error);

// A blob's file time says when it was last used and, so that a scan of a folder need not open every
// file, of which kind it is: that of in-context KV lies 2^30 s (34 years) back.
struct BlobTime {
  std::filesystem::file_time_type last_use;
  KvKind kind = KvKind::kAnchored;
};
BlobTime blob_time(std::filesystem::file_time_type file_time);
KvKind blob_kind(int64_t seconds);  // of the file time, since 1970
// Used now. Nothing when the file is gone or the system refuses; a chunk that is read again then
// tells its kind anew.
void set_blob_time(const std::filesystem::path& path, KvKind kind);

}  // namespace tessera
