#pragma once
// What a tier holds and in which order it may go: sizes of entries by key, least recently used
// first. Not thread-safe: a tier guards it with its own mutex.
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/chunk.h"

namespace tessera {

class LruIndex {
 public:
  // Adds the entry or changes its size, and makes it the most recently used.
  void set(const ChunkKey& key, uint64_t bytes);

  // Makes the entry the most recently used; nothing when it is not there.
  void touch(const ChunkKey& key);

  bool erase(const ChunkKey& key);
  bool contains(const ChunkKey& key) const { return entries_.contains(key); }

  // The entry to evict first; nothing when empty.
  std::optional<ChunkKey> oldest() const;

  std::vector<ChunkKey> keys() const;
  uint64_t bytes() const { return bytes_; }
  size_t size() const { return entries_.size(); }

 private:
  // Keys are digests already, so any 8 bytes of one are as good as a hash of all.
  struct KeyHash {
    size_t operator()(const ChunkKey& key) const;
  };
  struct Entry {
    uint64_t bytes = 0;
    std::list<ChunkKey>::iterator age;
  };

  std::list<ChunkKey> ages_;  // oldest first
  std::unordered_map<ChunkKey, Entry, KeyHash> entries_;
  uint64_t bytes_ = 0;
};

}  // namespace tessera
