#include "store/chunk_store.h"

#include <mutex>
#include <utility>

#include "base/check.h"

namespace tessera {

ChunkStore::ChunkStore(std::vector<std::unique_ptr<Tier>> tiers,
                       std::unique_ptr<VariantIndex> variants)
    : tiers_(std::move(tiers)), variants_(std::move(variants)) {
  for (const auto& tier : tiers_) CHECK(tier != nullptr);
}

ChunkStore::Found ChunkStore::find(const ChunkKey& key, const KvGeometry& geometry,
                                   std::span<const int32_t> ids) {
  for (size_t i = 0; i < tiers_.size(); ++i) {
    ChunkPtr chunk = tiers_[i]->get(key, geometry, ids);
    if (chunk == nullptr) continue;
    promote(key, chunk, i);
    return {std::move(chunk), tiers_[i]->name()};
  }
  return {};
}

void ChunkStore::promote(const ChunkKey& key, const ChunkPtr& chunk, size_t found_in) {
  if (found_in == 0) return;
  const std::shared_lock lock(erasing_);
  // Erased since it was read: a copy made now would bring it back.
  if (!tiers_[found_in]->contains(key)) return;
  for (size_t i = 0; i < found_in; ++i) tiers_[i]->put(key, chunk);
}

bool ChunkStore::put(const ChunkKey& key, const ChunkPtr& chunk) {
  CHECK(chunk != nullptr);
  const std::shared_lock lock(erasing_);
  bool is_kept = false;
  for (const auto& tier : tiers_) is_kept = tier->put(key, chunk);
  return is_kept;
}

bool ChunkStore::contains(const ChunkKey& key) {
  for (const auto& tier : tiers_) {
    if (tier->contains(key)) return true;
  }
  return false;
}

bool ChunkStore::erase(const ChunkKey& key) {
  const std::unique_lock lock(erasing_);
  bool was_there = false;
  for (const auto& tier : tiers_) was_there = tier->erase(key) || was_there;
  return was_there;
}

std::vector<Tier*> ChunkStore::tiers() {
  std::vector<Tier*> tiers;
  tiers.reserve(tiers_.size());
  for (const auto& tier : tiers_) tiers.push_back(tier.get());
  return tiers;
}

}  // namespace tessera
