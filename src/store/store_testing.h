#pragma once
// Small chunks and scratch folders for the tests of this module and of those above it.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "kv/chunk.h"
#include "store/tier.h"

namespace tessera::store_testing {

inline constexpr KvGeometry kGeometry{3, 8};

inline ChunkKey key_number(uint32_t n) {
  ChunkKey key;
  for (size_t i = 0; i < key.digest.size(); ++i)
    key.digest[i] = static_cast<std::byte>((n >> (8 * (i % 4))) + i);
  return key;
}

// Ids that no chunk with another number has.
inline std::vector<int32_t> ids_of(uint32_t number, int32_t n_tokens) {
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(n_tokens));
  for (int32_t i = 0; i < n_tokens; ++i) ids.push_back(static_cast<int32_t>(number * 1000) + i);
  return ids;
}

// A payload that no chunk with another number has.
inline ChunkPtr make_chunk(uint32_t number, int32_t n_tokens,
                           const KvGeometry& geometry = kGeometry) {
  std::vector<std::byte> payload(KvChunk::payload_bytes(geometry, n_tokens));
  for (size_t i = 0; i < payload.size(); ++i)
    payload[i] = static_cast<std::byte>(i * 31 + size_t(number) * 17 + i / 256);
  return std::make_shared<const KvChunk>(geometry, ids_of(number, n_tokens),
                                         Lineage{number % 3, 0.5F}, std::move(payload));
}

inline bool is_same(const ChunkPtr& a, const ChunkPtr& b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->geometry() == b->geometry() && a->lineage() == b->lineage() &&
         std::ranges::equal(a->ids(), b->ids()) && std::ranges::equal(a->payload(), b->payload());
}

inline ChunkPtr get_like(Tier& tier, const ChunkKey& key, const ChunkPtr& chunk) {
  return tier.get(key, chunk->geometry(), chunk->ids());
}

// In memory where the system has such a place: every put waits for fsync.
inline std::filesystem::path scratch_parent() {
  const std::filesystem::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK | X_OK) == 0 ? memory
                                                    : std::filesystem::temp_directory_path();
}

class ScratchDir : public ScratchFolder {
 public:
  ScratchDir() : ScratchFolder(scratch_parent()) {}
};

}  // namespace tessera::store_testing
