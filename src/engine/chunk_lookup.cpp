#include "engine/chunk_lookup.h"

#include "base/clock.h"

namespace tessera {

ChunkLookup::ChunkLookup(ChunkStore& store, const KvDomain& domain, LookupRules rules)
    : store_(store), domain_(domain), rules_(std::move(rules)), worker_([this] { work(); }) {}

ChunkLookup::~ChunkLookup() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    queue_.clear();
  }
  ready_.notify_one();
}

void ChunkLookup::push(SegmentKind kind, std::vector<int32_t> ids) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({kind, std::move(ids)});
  }
  ready_.notify_one();
}

std::vector<FoundSegment> ChunkLookup::finish() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  ready_.notify_one();
  const Stopwatch watch;
  worker_.join();
  waited_ms_ = watch.ms();
  if (failure_) std::rethrow_exception(failure_);
  return std::move(found_);
}

bool ChunkLookup::take(Asked& asked) {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return closed_ || !queue_.empty(); });
  if (queue_.empty()) return false;
  asked = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

// A thread that an exception leaves ends the process, so it is carried over to the one that waits.
void ChunkLookup::work() {
  try {
    work_through_queue();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void ChunkLookup::work_through_queue() {
  for (Asked asked; take(asked);) {
    const Stopwatch watch;
    found_.push_back(look_up(asked));
    work_ms_ += watch.ms();
    chain_is_exact_ = chain_is_exact_ && found_.back().match == Match::kExact;
    before_.insert(before_.end(), asked.ids.begin(), asked.ids.end());
  }
}

FoundSegment ChunkLookup::ask(const KeyContext& context, std::span<const int32_t> ids,
                              Match match) {
  ChunkStore::Found found = store_.find(key_of(domain_, context, ids), domain_.geometry, ids);
  if (found.chunk == nullptr) return {};
  // KV that was made over approximate KV is never exact, whatever key it was found under.
  if (match == Match::kExact && found.chunk->lineage().approximation_depth > 0) return {};
  return {match, std::move(found.chunk), found.tier};
}

FoundSegment ChunkLookup::look_up(const Asked& asked) {
  const bool is_storable =
      asked.kind == SegmentKind::kPreamble || asked.kind == SegmentKind::kChunk;
  if (!is_storable || asked.ids.empty()) return {};
  const KeyContext anchored = {Match::kIndependent, rules_.anchor, rules_.anchor_ids};
  if (rules_.exact && chain_is_exact_) {
    FoundSegment found = ask({Match::kExact, AnchorKind::kBare, before_}, asked.ids, Match::kExact);
    if (found.chunk != nullptr) return found;
  }
  // A first chunk whose anchor is the very ids that stand before it is exact as well (DESIGN.md
  // section 5), also when the preamble is not stored: it is then computed anew.
  const bool is_first_chunk = asked.kind == SegmentKind::kChunk && found_.size() <= 1;
  if (rules_.exact && is_first_chunk && before_ == rules_.anchor_ids) {
    FoundSegment found = ask(anchored, asked.ids, Match::kExact);
    if (found.chunk != nullptr) return found;
  }
  if (!rules_.independent || asked.kind != SegmentKind::kChunk) return {};
  return ask(anchored, asked.ids, Match::kIndependent);
}

}  // namespace tessera
