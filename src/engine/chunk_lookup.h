#pragma once
// Asks the store for the segments of a prompt, in order, on a thread of its own, while later
// segments are still being tokenised. One per request.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "kv/chunk.h"
#include "store/chunk_store.h"

namespace tessera {

// What may be asked for. Exact matches are a chain: the first segment that is not exact ends it, as
// in prefix caching.
struct LookupRules {
  bool exact = false;
  bool soft = false;  // in-context variants, where the store has an index of them
  bool independent = false;
  bool trusts_approximate = false;  // ReusePolicy::trusts_approximate
  AnchorKind anchor = AnchorKind::kPreamble;
  std::vector<int32_t> anchor_ids = {};  // what stood before the chunks when they were indexed
};

struct FoundSegment {
  Match match = Match::kMiss;
  ChunkPtr chunk;         // also the pin: the chunk cannot go away while this is held
  std::string_view tier;  // "" for a miss
  ChunkKey key;           // it was found under
  Company matched;        // kSoft: what of the recorded company was met again; zero: what was not
};

class ChunkLookup {
 public:
  // `store` and `domain` must outlive the object.
  ChunkLookup(ChunkStore& store, const KvDomain& domain, LookupRules rules);
  ~ChunkLookup();
  ChunkLookup(const ChunkLookup&) = delete;
  ChunkLookup& operator=(const ChunkLookup&) = delete;

  void push(SegmentKind kind, std::vector<int32_t> ids);

  // Waits for the rest. One entry per pushed segment. Call once.
  std::vector<FoundSegment> finish();

  // After finish(): what looking up and reading took, and how much of it finish() waited for.
  double work_ms() const { return work_ms_; }
  double waited_ms() const { return waited_ms_; }

 private:
  struct Asked {
    SegmentKind kind;
    std::vector<int32_t> ids;
  };
  void work();
  void work_through_queue();
  bool take(Asked& asked);  // waits; false when all is done
  FoundSegment look_up(const Asked& asked);
  FoundSegment ask(const ChunkKey& key, std::span<const int32_t> ids, Match match);
  FoundSegment ask_exact(const Asked& asked);
  FoundSegment ask_soft(const Asked& asked);

  ChunkStore& store_;
  const KvDomain& domain_;
  const LookupRules rules_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Asked> queue_;  // at most the segments of one prompt
  bool closed_ = false;
  std::vector<int32_t> before_;  // worker only
  bool chain_is_exact_ = true;   // worker only
  // Worker only: of the segments so far, where soft matches are sought.
  std::vector<ChunkKey> identities_;
  std::vector<FoundSegment> found_;
  double work_ms_ = 0;  // worker, until it is joined
  double waited_ms_ = 0;
  std::exception_ptr failure_;  // of the worker, given on by finish()
  std::jthread worker_;         // last: starts when all else is there, joined first
};

}  // namespace tessera
