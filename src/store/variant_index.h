#pragma once
// In what company the in-context variants of chunks were made, and where their KV lies: the soft
// tier of AdaCache. Keys only; the KV itself is a chunk of the store, so none of it lies there
// twice.
//
// A few hundred bytes a variant, in one SQLite file. A fault is a miss and is counted, as in a
// tier. Thread-safe, also across processes.
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <vector>

#include "kv/chunk.h"
#include "store/record_file.h"

namespace tessera {

struct Variant {
  ChunkKey blob;  // of the store
  Company company;
  bool owns_blob = false;  // the blob is found by this entry alone, and goes with it
  bool operator==(const Variant&) const = default;
};

class VariantIndex {
 public:
  static constexpr int32_t kMaxVariants = 4;  // of one chunk

  // Makes the file where there is none; ":memory:" keeps it in memory. One that cannot be used is
  // reported once and then serves nothing.
  explicit VariantIndex(const std::filesystem::path& file);

  // `chunk`: its identity_of(). Most used first, of equals the latest.
  std::vector<Variant> find(const ChunkKey& chunk);

  // Keeps `variant`, used once, in the place of one of the same company or blob. Where that makes
  // too many, the least used of the others goes (of equals the one used longest ago), and the use
  // of those that stay is halved, so that old fame fades. To `gone` is added what was replaced or
  // went, for its blob to be erased, unless `variant` lies in that blob itself. False: not kept,
  // and nothing is gone.
  bool put(const ChunkKey& chunk, const Variant& variant, std::vector<Variant>& gone);

  void count_use(const ChunkKey& chunk, const ChunkKey& blob);
  void erase(const ChunkKey& chunk, const ChunkKey& blob);
  void clear();

  struct Stats {
    uint64_t entries = 0;
    uint64_t errors = 0;  // the medium refused
  };
  Stats stats();

 private:
  std::mutex mutex_;  // guards what follows
  RecordFile file_;
};

}  // namespace tessera
