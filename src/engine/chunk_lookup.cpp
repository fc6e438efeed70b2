#include "engine/chunk_lookup.h"

#include <algorithm>
#include <tuple>

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
    if (rules_.soft) identities_.push_back(identity_of(domain_, asked.ids));
  }
}

FoundSegment ChunkLookup::ask(const ChunkKey& key, std::span<const int32_t> ids, Match match) {
  ChunkStore::Found found = store_.find(key, domain_.geometry, ids);
  if (found.chunk == nullptr) return {};
  // KV that was made over approximate KV is never exact, whatever key it was found under.
  const uint32_t depth = found.chunk->lineage().approximation_depth;
  const uint32_t most = match == Match::kSoft ? kMaxApproximationDepth : 0;
  if (match != Match::kIndependent && !rules_.trusts_approximate && depth > most) return {};
  return {match, std::move(found.chunk), found.tier, key, {}};
}

FoundSegment ChunkLookup::ask_exact(const Asked& asked) {
  // What is trusted behind the same tokens is so whatever was loaded for those.
  if (chain_is_exact_ || rules_.trusts_approximate) {
    FoundSegment found =
        ask(key_of(domain_, {Match::kExact, AnchorKind::kBare, before_, {}}, asked.ids), asked.ids,
            Match::kExact);
    if (found.chunk != nullptr) return found;
  }
  // A first chunk whose anchor is the very ids that stand before it is exact as well (DESIGN.md
  // section 5), also when the preamble is not stored: it is then computed anew.
  const bool is_first_chunk = asked.kind == SegmentKind::kChunk && found_.size() <= 1;
  if (!is_first_chunk || before_ != rules_.anchor_ids) return {};
  return ask(
      key_of(domain_, {Match::kIndependent, rules_.anchor, rules_.anchor_ids, {}}, asked.ids),
      asked.ids, Match::kExact);
}

namespace {

struct Candidate {
  Variant variant;
  Company matched;
  int rank = 0;          // 3: both, 2: the sink, 1: the predecessor
  size_t use_order = 0;  // 0: used most
};

}  // namespace

// The variant that met most of its company again: both, then the sink, then the predecessor; of
// equals the one made over the least approximate KV, then the one used most. One whose KV is gone
// is forgotten.
FoundSegment ChunkLookup::ask_soft(const Asked& asked) {
  VariantIndex* index = store_.variants();
  if (index == nullptr || identities_.empty()) return {};
  std::vector<Candidate> candidates;
  const ChunkKey own = identity_of(domain_, asked.ids);
  for (const Variant& v : index->find(own)) {
    if (!rules_.trusts_approximate && v.depth > kMaxApproximationDepth) continue;
    Candidate c = {v, {}, 0, candidates.size()};
    if (v.company.sink != ChunkKey{} &&
        std::find(identities_.begin(), identities_.end(), v.company.sink) != identities_.end()) {
      c.matched.sink = v.company.sink;
      c.rank += 2;
    }
    if (v.company.predecessor == identities_.back()) {
      c.matched.predecessor = v.company.predecessor;
      c.rank += 1;
    }
    if (c.rank > 0) candidates.push_back(c);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.rank, a.variant.depth, a.use_order) <
           std::tuple(-b.rank, b.variant.depth, b.use_order);
  });
  for (const Candidate& c : candidates) {
    FoundSegment found = ask(c.variant.blob, asked.ids, Match::kSoft);
    if (found.chunk == nullptr) {
      if (!store_.contains(c.variant.blob)) index->erase(own, c.variant.blob);
      continue;
    }
    found.matched = c.matched;
    return found;
  }
  return {};
}

FoundSegment ChunkLookup::look_up(const Asked& asked) {
  const bool is_chunk = asked.kind == SegmentKind::kChunk;
  if ((!is_chunk && asked.kind != SegmentKind::kPreamble) || asked.ids.empty()) return {};
  FoundSegment found;
  if (rules_.exact) found = ask_exact(asked);
  if (found.chunk == nullptr && rules_.soft && is_chunk) found = ask_soft(asked);
  if (found.chunk == nullptr && rules_.independent && is_chunk) {
    found =
        ask(key_of(domain_, {Match::kIndependent, rules_.anchor, rules_.anchor_ids, {}}, asked.ids),
            asked.ids, Match::kIndependent);
  }
  return found;
}

}  // namespace tessera
