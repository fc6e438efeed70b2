#pragma once
// A tier keeps KV chunks on one medium: RAM or disk.
//
// A tier may lose a chunk at any time (eviction, restart, host away) but never returns a wrong one:
// bytes that fail their checksum, or that belong to another key, are a miss. Faults are counted in
// stats(), not thrown. Thread-safe: any method from any thread.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "kv/chunk.h"

namespace tessera {

struct TierStats {
  uint64_t hits = 0;
  uint64_t misses = 0;   // not there
  uint64_t corrupt = 0;  // there, but checksum, key, size or ids did not fit: removed and a miss
  uint64_t errors = 0;   // the medium refused (disk full, no permission)
  uint64_t entries = 0;
  uint64_t bytes = 0;  // at rest, headers included
};

struct TierEntry {
  ChunkKey key;
  int32_t n_tokens = 0;
  uint64_t bytes = 0;
};

// What a look at a whole entry found.
enum class Verdict {
  kGood,
  kGone,     // not there, perhaps evicted meanwhile
  kDamaged,  // counted as corrupt and removed
  kUnknown,  // the medium refused, which says nothing about the entry
};

struct TierOptions {
  std::filesystem::path dir;  // disk
  // 0: no limit. On disk the tiers of one folder that have a limit, in whatever process, hold it
  // together; where the file system has no locks, each process holds it by itself.
  uint64_t limit_bytes = 0;
};

class Tier {
 public:
  virtual ~Tier() = default;

  virtual std::string_view name() const = 0;

  // The chunk under `key`, or null on a miss. Its geometry and ids are compared with `geometry` and
  // `ids`.
  virtual ChunkPtr get(const ChunkKey& key, const KvGeometry& geometry,
                       std::span<const int32_t> ids) = 0;

  // Keeps `chunk` if there is room and says whether it did. An older chunk of that key is replaced.
  virtual bool put(const ChunkKey& key, ChunkPtr chunk) = 0;

  // Removes the chunk; false when it was not there. Readers that hold it keep it.
  virtual bool erase(const ChunkKey& key) = 0;

  virtual bool contains(const ChunkKey& key) = 0;

  // Calls `visit` once per entry, in no order, until it returns false.
  virtual void for_each(const std::function<bool(const TierEntry&)>& visit) = 0;

  virtual TierStats stats() = 0;

  // Reads the whole entry and compares its checksums, with no model at hand. Media that cannot rot
  // only look whether it is there.
  virtual Verdict verify(const ChunkKey& key) {
    return contains(key) ? Verdict::kGood : Verdict::kGone;
  }
};

std::vector<std::string_view> tier_names();
// Throws Error(kInvalidRequest) for an unknown name.
std::unique_ptr<Tier> make_tier(std::string_view name, const TierOptions& options);

}  // namespace tessera
