#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "store/lru_index.h"
#include "store/tier.h"

namespace tessera {
namespace {

class RamTier : public Tier {
 public:
  explicit RamTier(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::string_view name() const override { return "ram"; }

  ChunkPtr get(const ChunkKey& key, const KvGeometry& geometry,
               std::span<const int32_t> ids) override {
    const std::lock_guard lock(mutex_);
    const auto it = chunks_.find(key);
    if (it == chunks_.end()) {
      ++counters_.misses;
      return nullptr;
    }
    if (it->second->geometry() != geometry || !std::ranges::equal(it->second->ids(), ids)) {
      ++counters_.corrupt;
      drop(key);
      return nullptr;
    }
    ++counters_.hits;
    index_.touch(key, kind_of(it->second->lineage()));
    return it->second;
  }

  bool put(const ChunkKey& key, ChunkPtr chunk) override {
    CHECK(chunk != nullptr);
    const uint64_t bytes = bytes_of(*chunk);
    const KvKind kind = kind_of(chunk->lineage());
    const std::lock_guard lock(mutex_);
    drop(key);
    if (limit_bytes_ != 0 && bytes > limit_bytes_) return false;
    while (limit_bytes_ != 0 && index_.bytes() + bytes > limit_bytes_) {
      const std::optional<ChunkKey> victim = index_.victim(bytes, kind);
      if (!victim) break;
      drop(*victim);
    }
    index_.set(key, bytes, kind);
    chunks_[key] = std::move(chunk);
    return true;
  }

  bool erase(const ChunkKey& key) override {
    const std::lock_guard lock(mutex_);
    return drop(key);
  }

  bool contains(const ChunkKey& key) override {
    const std::lock_guard lock(mutex_);
    return index_.contains(key);
  }

  // Visits a copy, so that `visit` may call the tier.
  void for_each(const std::function<bool(const TierEntry&)>& visit) override {
    std::vector<TierEntry> entries;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, chunk] : chunks_)
        entries.push_back({key, chunk->n_tokens(), bytes_of(*chunk)});
    }
    for (const TierEntry& entry : entries) {
      if (!visit(entry)) return;
    }
  }

  TierStats stats() override {
    const std::lock_guard lock(mutex_);
    TierStats stats = counters_;
    stats.entries = index_.size();
    stats.bytes = index_.bytes();
    return stats;
  }

 private:
  static uint64_t bytes_of(const KvChunk& chunk) {
    return sizeof(KvChunk) + chunk.ids().size_bytes() + chunk.payload().size();
  }

  // Needs mutex_. Readers keep the chunk by their pointers.
  bool drop(const ChunkKey& key) {
    chunks_.erase(key);
    return index_.erase(key);
  }

  const uint64_t limit_bytes_;
  std::mutex mutex_;  // guards all below
  std::map<ChunkKey, ChunkPtr> chunks_;
  LruIndex index_;
  TierStats counters_;
};

}  // namespace

std::unique_ptr<Tier> make_ram_tier(const TierOptions& options) {
  return std::make_unique<RamTier>(options.limit_bytes);
}

}  // namespace tessera
