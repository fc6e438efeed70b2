#pragma once
// In what company the in-context variants of chunks were made, and where their KV lies: what soft
// matches of AdaCache are found by. Keys only; the KV itself is a chunk of the store, so none of it
// lies there twice.
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
  uint32_t depth = 0;      // how often the KV was made over approximate KV
  bool owns_blob = false;  // the blob is found by this entry alone, and goes with it
  bool operator==(const Variant&) const = default;
};

// A variant as a listing shows it.
struct ListedVariant {
  ChunkKey chunk;  // its identity_of()
  Variant variant;
  int64_t uses = 0;  // since it came, halved now and then (VariantIndex::admit)
  bool operator==(const ListedVariant&) const = default;
};

class VariantIndex {
 public:
  static constexpr int32_t kMaxVariants = 4;  // of one chunk

  // Makes the file where there is none; ":memory:" keeps it in memory. One that cannot be used is
  // reported once and then serves nothing.
  explicit VariantIndex(const std::filesystem::path& file);

  // `chunk`: its identity_of(). Most used first, of equals the latest.
  std::vector<Variant> find(const ChunkKey& chunk);

  // Those of all chunks, in no order. Damaged entries are left out, and left alone.
  std::vector<ListedVariant> list();

  // Whether there is a file to keep anything in.
  bool is_usable() const { return file_.is_usable(); }

  enum class Admission {
    kKept,
    kPresent,  // the same company is there, made over no more approximate KV
    kRefused,  // all others of the chunk are in use
    kFailed,   // the medium refused
  };
  // Takes `variant` in, used once, before its blob is written. One of the same company goes for it
  // where that was made over more approximate KV; its uses stay. Where that makes too many, the
  // least used of the others goes (of equals the one used longest ago), unless it was used since
  // the last attempt: then all uses are halved and nothing else happens, so that what meets once
  // cannot flush what is met again and again, and old fame fades. `gone` gets what went, for its
  // blob to be erased.
  Admission admit(const ChunkKey& chunk, const Variant& variant, std::vector<Variant>& gone);

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
