#pragma once
// Small chunks and scratch folders for the tests of this module.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// A fresh folder, removed with all that is in it. In memory where the system has such a place:
// every put waits for fsync.
class ScratchDir {
 public:
  ScratchDir() {
    for (const auto& parent :
         {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
      std::string name = (parent / "tessera_store_XXXXXX").string();
      if (path_.empty() && ::mkdtemp(name.data()) != nullptr) path_ = name;
    }
  }
  ~ScratchDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tessera::store_testing
