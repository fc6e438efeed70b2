#include "store/lru_index.h"

#include <cstring>
#include <iterator>

namespace tessera {

size_t LruIndex::KeyHash::operator()(const ChunkKey& key) const {
  size_t hash = 0;
  std::memcpy(&hash, key.digest.data(), sizeof(hash));
  return hash;
}

void LruIndex::set(const ChunkKey& key, uint64_t bytes, KvKind new_kind) {
  erase(key);
  Kind& those = kind(new_kind);
  those.ages.push_back(key);
  those.bytes += bytes;
  entries_[key] = {bytes, new_kind, std::prev(those.ages.end())};
}

void LruIndex::touch(const ChunkKey& key, KvKind kind) {
  const auto it = entries_.find(key);
  if (it != entries_.end()) set(key, it->second.bytes, kind);
}

bool LruIndex::erase(const ChunkKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return false;
  Kind& those = kind(it->second.kind);
  those.bytes -= it->second.bytes;
  those.ages.erase(it->second.age);
  entries_.erase(it);
  return true;
}

std::optional<ChunkKey> LruIndex::victim(uint64_t bytes, KvKind new_kind) const {
  constexpr uint64_t kInContextPart = 8;  // one in so many bytes
  if (entries_.empty()) return std::nullopt;
  const Kind& in_context = kind(KvKind::kInContext);
  const Kind& anchored = kind(KvKind::kAnchored);
  const uint64_t then = in_context.bytes + (new_kind == KvKind::kInContext ? bytes : 0);
  const bool is_over = !in_context.ages.empty() && then > (this->bytes() + bytes) / kInContextPart;
  return (is_over || anchored.ages.empty() ? in_context : anchored).ages.front();
}

std::vector<ChunkKey> LruIndex::keys() const {
  std::vector<ChunkKey> out;
  out.reserve(size());
  for (const Kind& those : kinds_) out.insert(out.end(), those.ages.begin(), those.ages.end());
  return out;
}

}  // namespace tessera
