#include "store/score_store.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "base/sqlite.h"
#include "kv/chunk_format.h"

namespace tessera {
namespace {

constexpr uint64_t kKeyVersion = 1;
constexpr RecordKind kKind = {
    .application_id = 0x54534352,  // "TSCR"
    .plural = "scores",
    .schema = "CREATE TABLE IF NOT EXISTS score (key TEXT PRIMARY KEY, record BLOB)"};

// Of the key too: a record that came under another key is damaged.
uint64_t checksum(const ChunkKey& key, std::span<const std::byte> payload) {
  std::vector<std::byte> all(key.digest.begin(), key.digest.end());
  all.insert(all.end(), payload.begin(), payload.end());
  return xxh3_64(all);
}

// docs/CHUNK_FORMAT.md, "Scores of chunks".
std::vector<std::byte> encode(const ChunkKey& key, const ChunkScores& scores) {
  const size_t n = scores.value.size();
  CHECK(scores.bytes.size() == n);
  std::vector<uint32_t> ends;
  ends.reserve(n);
  for (const TokenRange& r : scores.bytes) ends.push_back(static_cast<uint32_t>(r.end));
  std::vector<std::byte> out(8 * n + sizeof(uint64_t));
  std::memcpy(out.data(), ends.data(), 4 * n);
  std::memcpy(out.data() + 4 * n, scores.value.data(), 4 * n);
  const uint64_t sum = checksum(key, std::span(out).first(8 * n));
  std::memcpy(out.data() + 8 * n, &sum, sizeof(sum));
  return out;
}

std::optional<ChunkScores> decode(const ChunkKey& key, std::span<const std::byte> record) {
  if (record.size() < sizeof(uint64_t) || record.size() % 8 != 0) return std::nullopt;
  const size_t n = record.size() / 8 - 1;
  uint64_t sum = 0;
  std::memcpy(&sum, record.data() + 8 * n, sizeof(sum));
  if (sum != checksum(key, record.first(8 * n))) return std::nullopt;
  std::vector<uint32_t> ends(n);
  ChunkScores out;
  out.value.resize(n);
  std::memcpy(ends.data(), record.data(), 4 * n);
  std::memcpy(out.value.data(), record.data() + 4 * n, 4 * n);
  int32_t begin = 0;
  for (const uint32_t end : ends) {
    out.bytes.push_back({begin, static_cast<int32_t>(end)});
    begin = out.bytes.back().end;
  }
  return out;
}

}  // namespace

bool ChunkScores::operator==(const ChunkScores& other) const {
  return value == other.value &&
         std::equal(bytes.begin(), bytes.end(), other.bytes.begin(), other.bytes.end(),
                    [](const TokenRange& a, const TokenRange& b) {
                      return a.begin == b.begin && a.end == b.end;
                    });
}

ChunkKey score_key(const ScoreContext& context, std::string_view chunk_text) {
  Sha256 hash;
  hash.field("tessera-score-key", kKeyVersion);
  hash.field("namespace", context.scorer.name_space);
  hash.field("scorer", context.scorer.model_digest);
  hash.field("weights", context.scorer.weight_types);
  hash.field("tokenizer", context.scorer.tokenizer_digest);
  hash.field("rope", context.scorer.rope);
  hash.field("kind", context.kind);
  hash.field("anchor", bytes_of_ids(context.anchor_ids));
  hash.field("text", chunk_text);
  return {hash.digest()};
}

ScoreStore::ScoreStore(const std::filesystem::path& file) : file_(file, kKind) {}

std::optional<ChunkScores> ScoreStore::find(const ChunkKey& key) {
  const std::lock_guard lock(mutex_);
  const std::string name = key.hex();
  std::vector<std::byte> record;
  file_.read([&](Database& database) {
    Statement select(database, "SELECT record FROM score WHERE key = ?");
    if (select.bind(1, name).step()) record = select.bytes(0);
  });
  std::optional<ChunkScores> out;
  if (!record.empty()) {
    out = decode(key, record);
    if (!out) ++counted_.corrupt;
  }
  ++(out ? counted_.hits : counted_.misses);
  return out;
}

bool ScoreStore::put(const ChunkKey& key, const ChunkScores& scores) {
  const std::lock_guard lock(mutex_);
  const std::string name = key.hex();
  const std::vector<std::byte> record = encode(key, scores);
  return file_.write([&](Database& database) {
    Statement insert(database, "INSERT OR REPLACE INTO score (key, record) VALUES (?, ?)");
    insert.bind(1, name).bind(2, std::span<const std::byte>(record)).run();
  });
}

bool ScoreStore::contains(const ChunkKey& key) {
  const std::lock_guard lock(mutex_);
  const std::string name = key.hex();
  bool is_there = false;
  file_.read([&](Database& database) {
    Statement select(database, "SELECT 1 FROM score WHERE key = ?");
    is_there = select.bind(1, name).step();
  });
  return is_there;
}

ScoreStore::Stats ScoreStore::stats() {
  const std::lock_guard lock(mutex_);
  Stats out = counted_;
  out.errors = file_.errors();
  file_.read([&](Database& database) {
    Statement count(database, "SELECT count(*), coalesce(sum(length(record)), 0) FROM score");
    count.step();
    out.entries = static_cast<uint64_t>(count.integer(0));
    out.bytes = static_cast<uint64_t>(count.integer(1));
  });
  return out;
}

}  // namespace tessera
