#include "engine/publisher.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace tessera {
namespace {

std::span<const int32_t> ids_of(const Prompt& prompt, TokenRange range) {
  return std::span(prompt.ids)
      .subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

int32_t n_computed(const ReusePlan& plan, TokenRange range) {
  return rows_within(plan.rows, range).size();
}

}  // namespace

uint32_t approximation_depth(std::span<const Segment> segments, std::span<const FoundSegment> found,
                             size_t segment) {
  uint32_t depth = 0;
  for (size_t i = 0; i <= segment; ++i) {
    if (found[i].chunk == nullptr) continue;
    const uint32_t loaded = found[i].chunk->lineage().approximation_depth;
    if (is_approximate(segments[i]) || loaded > 0) depth = std::max(depth, loaded + 1);
  }
  return depth;
}

std::optional<PublishRules> publish_rules(const ReusePolicy& policy) {
  const std::vector<Match> lookups = policy.lookups();
  const bool looks_softly =
      std::find(lookups.begin(), lookups.end(), Match::kSoft) != lookups.end();
  if (!looks_softly && lookups != std::vector<Match>{Match::kExact}) return std::nullopt;
  return PublishRules{looks_softly, policy.trusts_approximate()};
}

bool Publisher::wants(const Computed& computed, size_t segment) const {
  const Segment& s = computed.plan.segments[segment];
  const bool is_chunk = s.kind == SegmentKind::kChunk;
  if ((!is_chunk && s.kind != SegmentKind::kPreamble) || s.match == Match::kExact) return false;
  const uint32_t depth = approximation_depth(computed.plan.segments, computed.found, segment);
  if (depth == 0) return true;
  // What nothing was changed of is there already.
  return rules_.soft && is_chunk && store_.variants() != nullptr &&
         n_computed(computed.plan, s.range) > 0 &&
         (rules_.trusts_approximate || depth <= kMaxApproximationDepth);
}

bool Publisher::store_blob(const ChunkKey& key, const Computed& computed, size_t segment) {
  if (store_.contains(key)) return true;
  std::vector<std::byte> payload = computed.payload(segment);
  if (payload.empty() || !is_finite_f16(payload)) return false;
  const Segment& s = computed.plan.segments[segment];
  const std::span<const int32_t> ids = ids_of(computed.prompt, s.range);
  Lineage lineage;
  lineage.approximation_depth =
      approximation_depth(computed.plan.segments, computed.found, segment);
  if (lineage.approximation_depth > 0) {
    lineage.recompute_ratio =
        static_cast<float>(n_computed(computed.plan, s.range)) / static_cast<float>(s.range.size());
  }
  return store_.put(key, std::make_shared<const KvChunk>(
                             domain_.geometry, std::vector<int32_t>(ids.begin(), ids.end()),
                             lineage, std::move(payload)));
}

bool Publisher::store_segment(const Computed& computed, size_t segment) {
  const std::vector<Segment>& segments = computed.plan.segments;
  const Segment& s = segments[segment];
  const std::span<const int32_t> ids = ids_of(computed.prompt, s.range);
  const auto identity = [&](size_t i) {
    return identity_of(domain_, ids_of(computed.prompt, segments[i].range));
  };
  KeyContext context;
  const bool is_exact =
      rules_.trusts_approximate || approximation_depth(segments, computed.found, segment) == 0;
  context.match = is_exact ? Match::kExact : Match::kSoft;
  context.before = std::span(computed.prompt.ids).first(static_cast<size_t>(s.range.begin));
  if (segment > 0) context.company.predecessor = identity(segment - 1);
  if (computed.sinks[segment] >= 0)
    context.company.sink = identity(static_cast<size_t>(computed.sinks[segment]));
  const ChunkKey key = key_of(domain_, context, ids);
  if (!store_blob(key, computed, segment)) return false;
  VariantIndex* variants = store_.variants();
  if (!rules_.soft || variants == nullptr || s.kind != SegmentKind::kChunk) return true;
  std::vector<Variant> gone;
  const Variant made = {key, context.company, !is_exact};
  const bool is_kept = variants->put(identity(segment), made, gone);
  if (!is_kept) gone.push_back(made);  // nothing would find it
  for (const Variant& v : gone) {
    if (v.owns_blob) store_.erase(v.blob);
  }
  return is_kept;
}

bool Publisher::publish(const Computed& computed) {
  bool all_stored = true;
  for (size_t i = 0; i < computed.plan.segments.size(); ++i) {
    if (wants(computed, i)) all_stored = store_segment(computed, i) && all_stored;
  }
  return all_stored;
}

}  // namespace tessera
