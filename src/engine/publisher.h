#pragma once
// Stores the KV that a request made in context as what it is: exact KV under what stood before it,
// approximate KV as a variant with its company and its lineage. Thread-safe where the store is.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/chunk_lookup.h"
#include "kv/account.h"
#include "kv/chunk.h"
#include "reuse/policy.h"
#include "store/chunk_store.h"

namespace tessera {

struct PublishRules {
  bool soft = false;                // approximate KV is kept too
  bool trusts_approximate = false;  // ReusePolicy::trusts_approximate: kept as if it were exact
};

// Nothing for a policy that looks neither for exact KV alone nor for soft matches: of its requests
// only anchored chunks are worth keeping.
std::optional<PublishRules> publish_rules(const ReusePolicy& policy);

// What a request leaves behind. `found` and `sinks` have one entry per segment of the prompt.
struct Computed {
  const Prompt& prompt;
  const ReusePlan& plan;
  std::span<const FoundSegment> found;
  std::span<const int32_t> sinks;  // as in Prefilled
  // The kind and ids of the anchor behind which the store makes its own blobs of what was missed: a
  // first chunk that stands behind just those is such a blob.
  AnchorKind anchor = AnchorKind::kPreamble;
  std::span<const int32_t> anchor_ids = {};
  // The KV of a whole segment as it stands in the prompt, K before RoPE: the payload of a KvChunk;
  // empty: it is not at hand.
  std::function<std::vector<std::byte>(size_t segment)> payload = {};
};

class Publisher {
 public:
  // References must outlive the object.
  Publisher(ChunkStore& store, const KvDomain& domain, const PublishRules& rules)
      : store_(store), domain_(domain), rules_(rules) {}

  // Whether a segment would be stored, from what was found of it and of all before it.
  bool wants(const Computed& computed, size_t segment) const;

  // False when something that should have been kept was not: no room, or KV that f16 cannot hold.
  bool publish(const Computed& computed);

 private:
  KeyContext context_of(const Computed& computed, size_t segment) const;
  bool store_blob(const ChunkKey& key, const Computed& computed, size_t segment);
  bool store_variant(const ChunkKey& key, const Computed& computed, size_t segment);
  void note_company_of_exact(const Computed& computed, size_t segment);

  ChunkStore& store_;
  const KvDomain& domain_;
  PublishRules rules_;
};

// How often the KV that a request leaves at `segment` was made over approximate KV: 0 where it is
// what full prefill gives.
uint32_t approximation_depth(std::span<const Segment> segments, std::span<const FoundSegment> found,
                             size_t segment);

}  // namespace tessera
