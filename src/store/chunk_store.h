#pragma once
// Chunks over an ordered list of tiers, fastest first. A hit in a slower tier is copied into the
// faster ones. Any doubt is a miss. Thread-safe.
#include <cstddef>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <vector>

#include "store/tier.h"
#include "store/variant_index.h"

namespace tessera {

class ChunkStore {
 public:
  // `variants` may be null: there are no soft matches then.
  explicit ChunkStore(std::vector<std::unique_ptr<Tier>> tiers,
                      std::unique_ptr<VariantIndex> variants = nullptr);

  struct Found {
    ChunkPtr chunk;         // null: a miss in every tier
    std::string_view tier;  // where it lay, empty on a miss
  };
  // The returned pointer is the pin: the chunk stays valid until it is dropped, whatever is evicted
  // meanwhile.
  Found find(const ChunkKey& key, const KvGeometry& geometry, std::span<const int32_t> ids);

  // Stores in every tier. True when the last (most durable) tier kept it.
  bool put(const ChunkKey& key, const ChunkPtr& chunk);

  bool contains(const ChunkKey& key);
  bool erase(const ChunkKey& key);  // from every tier

  std::vector<Tier*> tiers();
  VariantIndex* variants() { return variants_.get(); }

 private:
  // Copies a hit in tier `found_in` into the faster ones.
  void promote(const ChunkKey& key, const ChunkPtr& chunk, size_t found_in);

  // Held shared by whoever adds to several tiers and exclusively by erase, which thus never misses
  // a copy in the making.
  std::shared_mutex erasing_;
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::unique_ptr<VariantIndex> variants_;
};

}  // namespace tessera
