#pragma once
// What a scorer said of chunks, kept from indexing on: a few bytes a token beside the kilobytes of
// its KV, so all of it lies in one SQLite file, without a limit.
//
// A fault is a miss and is counted, as in a tier. Thread-safe.
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kv/chunk.h"
#include "store/record_file.h"

namespace tessera {

// Of one chunk, one value per token of the scorer.
struct ChunkScores {
  std::vector<TokenRange> bytes;  // [tokens], of the chunk's text, ascending, without gaps
  std::vector<float> value;       // [tokens]
  bool operator==(const ChunkScores&) const;
};

// What the scores of a chunk depend on.
struct ScoreContext {
  KvDomain scorer;                      // the scorer's own
  std::string_view kind;                // of score, with the layers it is read from
  std::span<const int32_t> anchor_ids;  // what the scorer read before the chunk
};
ChunkKey score_key(const ScoreContext& context, std::string_view chunk_text);

class ScoreStore {
 public:
  // Makes the file where there is none. One that cannot be used is reported once and then serves
  // nothing.
  explicit ScoreStore(const std::filesystem::path& file);

  std::optional<ChunkScores> find(const ChunkKey& key);
  bool put(const ChunkKey& key, const ChunkScores& scores);  // false: not kept
  bool contains(const ChunkKey& key);

  struct Stats {
    uint64_t hits = 0, misses = 0;
    uint64_t corrupt = 0;  // the record did not fit its checksum: a miss
    uint64_t errors = 0;   // the medium refused
    uint64_t entries = 0, bytes = 0;
  };
  Stats stats();

 private:
  std::mutex mutex_;  // guards what follows
  RecordFile file_;
  Stats counted_;
};

}  // namespace tessera
