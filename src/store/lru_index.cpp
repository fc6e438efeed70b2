#include "store/lru_index.h"

#include <cstring>
#include <iterator>

namespace tessera {

size_t LruIndex::KeyHash::operator()(const ChunkKey& key) const {
  size_t hash = 0;
  std::memcpy(&hash, key.digest.data(), sizeof(hash));
  return hash;
}

void LruIndex::set(const ChunkKey& key, uint64_t bytes) {
  erase(key);
  ages_.push_back(key);
  entries_[key] = {bytes, std::prev(ages_.end())};
  bytes_ += bytes;
}

void LruIndex::touch(const ChunkKey& key) {
  const auto it = entries_.find(key);
  if (it != entries_.end()) ages_.splice(ages_.end(), ages_, it->second.age);
}

bool LruIndex::erase(const ChunkKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return false;
  bytes_ -= it->second.bytes;
  ages_.erase(it->second.age);
  entries_.erase(it);
  return true;
}

std::optional<ChunkKey> LruIndex::oldest() const {
  return ages_.empty() ? std::nullopt : std::optional<ChunkKey>(ages_.front());
}

std::vector<ChunkKey> LruIndex::keys() const { return {ages_.begin(), ages_.end()}; }

}  // namespace tessera
