#pragma once
// What a tier holds and in which order it may go: sizes of entries by key. Not thread-safe: a tier
// guards it with its own mutex.
//
// The least recently used goes first, of two kinds apart: KV that requests leave behind in their
// own context (is_in_context) fills at most an eighth of a full tier, or one chunk where that is
// more. Each request brings new such KV, and of a stream of new combinations hardly any serves
// again, so that one order for all would let it flush the anchored chunks, which serve in every
// combination and save many more rows.
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/chunk.h"

namespace tessera {

enum class KvKind { kAnchored, kInContext };

inline KvKind kind_of(const Lineage& lineage) {
  return is_in_context(lineage) ? KvKind::kInContext : KvKind::kAnchored;
}

class LruIndex {
 public:
  // Adds the entry or changes its size and kind, and makes it the most recently used.
  void set(const ChunkKey& key, uint64_t bytes, KvKind kind);

  // Makes the entry the most recently used of `kind`, which may be another than was thought;
  // nothing when it is not there.
  void touch(const ChunkKey& key, KvKind kind);

  bool erase(const ChunkKey& key);
  bool contains(const ChunkKey& key) const { return entries_.contains(key); }

  // The entry to evict first, to make room for `bytes` of `kind`; nothing when empty.
  std::optional<ChunkKey> victim(uint64_t bytes, KvKind kind) const;

  std::vector<ChunkKey> keys() const;
  uint64_t bytes() const { return kinds_[0].bytes + kinds_[1].bytes; }
  size_t size() const { return entries_.size(); }

 private:
  // Keys are digests already, so any 8 bytes of one are as good as a hash of all.
  struct KeyHash {
    size_t operator()(const ChunkKey& key) const;
  };
  struct Entry {
    uint64_t bytes = 0;
    KvKind kind = KvKind::kAnchored;
    std::list<ChunkKey>::iterator age;
  };
  struct Kind {
    std::list<ChunkKey> ages;  // oldest first
    uint64_t bytes = 0;
  };
  Kind& kind(KvKind kind) { return kinds_[static_cast<size_t>(kind)]; }
  const Kind& kind(KvKind kind) const { return kinds_[static_cast<size_t>(kind)]; }

  std::array<Kind, 2> kinds_;  // by KvKind
  std::unordered_map<ChunkKey, Entry, KeyHash> entries_;
};

}  // namespace tessera
