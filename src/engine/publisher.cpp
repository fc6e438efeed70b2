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
         store_.variants()->is_usable() && n_computed(computed.plan, s.range) > 0 &&
         (rules_.trusts_approximate || depth <= kMaxApproximationDepth);
}

KeyContext Publisher::context_of(const Computed& computed, size_t segment) const {
  const std::vector<Segment>& segments = computed.plan.segments;
  const auto identity = [&](size_t i) {
    return identity_of(domain_, ids_of(computed.prompt, segments[i].range));
  };
  KeyContext context;
  context.match = Match::kExact;
  context.before =
      std::span(computed.prompt.ids).first(static_cast<size_t>(segments[segment].range.begin));
  if (segment > 0) context.company.predecessor = identity(segment - 1);
  if (computed.sinks[segment] >= 0)
    context.company.sink = identity(static_cast<size_t>(computed.sinks[segment]));
  if (approximation_depth(segments, computed.found, segment) > 0) {
    if (!rules_.trusts_approximate) context.match = Match::kSoft;
  } else if (rules_.soft && segment == 1 &&
             std::equal(context.before.begin(), context.before.end(), computed.anchor_ids.begin(),
                        computed.anchor_ids.end())) {
    context.match = Match::kIndependent;  // which counts as exact behind its anchor
    context.anchor = computed.anchor;
  }
  return context;
}

bool Publisher::store_blob(const ChunkKey& key, const Computed& computed, size_t segment) {
  const Segment& s = computed.plan.segments[segment];
  const std::span<const int32_t> ids = ids_of(computed.prompt, s.range);
  Lineage lineage;
  lineage.approximation_depth =
      approximation_depth(computed.plan.segments, computed.found, segment);
  lineage.recompute_ratio =
      static_cast<float>(n_computed(computed.plan, s.range)) / static_cast<float>(s.range.size());
  // What an index run makes just so, the preamble and what stands behind its anchor, has no
  // sources.
  const KeyContext context = context_of(computed, segment);
  if (context.match != Match::kIndependent && !context.before.empty()) {
    for (size_t i = 0; i <= segment; ++i)
      lineage.sources |= uint32_t{1} << static_cast<uint32_t>(computed.plan.segments[i].match);
  }
  // KV that is nearer to full prefill takes the place of what lies there.
  const ChunkPtr present = store_.find(key, domain_.geometry, ids).chunk;
  if (present != nullptr && present->lineage().approximation_depth <= lineage.approximation_depth)
    return true;
  std::vector<std::byte> payload = computed.payload(segment);
  if (payload.empty() || !is_finite_f16(payload)) return false;
  return store_.put(key, std::make_shared<const KvChunk>(
                             domain_.geometry, std::vector<int32_t>(ids.begin(), ids.end()),
                             lineage, std::move(payload)));
}

// The entry first: what is not admitted is not written.
bool Publisher::store_variant(const ChunkKey& key, const Computed& computed, size_t segment) {
  VariantIndex& variants = *store_.variants();
  const uint32_t depth = approximation_depth(computed.plan.segments, computed.found, segment);
  const ChunkKey chunk =
      identity_of(domain_, ids_of(computed.prompt, computed.plan.segments[segment].range));
  std::vector<Variant> gone;
  const VariantIndex::Admission admission =
      variants.admit(chunk, {key, context_of(computed, segment).company, depth, depth > 0}, gone);
  for (const Variant& v : gone) {
    if (v.owns_blob) store_.erase(v.blob);
  }
  if (depth == 0 || admission == VariantIndex::Admission::kPresent ||
      admission == VariantIndex::Admission::kRefused)
    return true;
  if (admission == VariantIndex::Admission::kFailed) return false;
  if (store_blob(key, computed, segment)) return true;
  variants.erase(chunk, key);
  return false;
}

// Exact KV may have been made by requests that kept no company, or before the index was lost.
void Publisher::note_company_of_exact(const Computed& computed, size_t segment) {
  const Segment& s = computed.plan.segments[segment];
  const FoundSegment& found = computed.found[segment];
  if (s.kind != SegmentKind::kChunk || s.match != Match::kExact || segment == 0 ||
      found.chunk == nullptr || found.chunk->lineage().approximation_depth > 0)
    return;
  const ChunkKey chunk = identity_of(domain_, ids_of(computed.prompt, s.range));
  const Company company = context_of(computed, segment).company;
  const std::vector<Variant> known = store_.variants()->find(chunk);
  const bool is_known = std::any_of(known.begin(), known.end(), [&](const Variant& v) {
    return v.blob == found.key || v.company.predecessor == company.predecessor;
  });
  std::vector<Variant> gone;
  if (!is_known) store_.variants()->admit(chunk, {found.key, company, 0, false}, gone);
  for (const Variant& v : gone) {
    if (v.owns_blob) store_.erase(v.blob);
  }
}

bool Publisher::publish(const Computed& computed) {
  const bool keeps_company =
      rules_.soft && store_.variants() != nullptr && store_.variants()->is_usable();
  bool all_stored = true;
  for (size_t i = 0; i < computed.plan.segments.size(); ++i) {
    const Segment& s = computed.plan.segments[i];
    if (keeps_company) note_company_of_exact(computed, i);
    if (!wants(computed, i)) continue;
    const ChunkKey key = key_of(domain_, context_of(computed, i), ids_of(computed.prompt, s.range));
    if (approximation_depth(computed.plan.segments, computed.found, i) == 0)
      all_stored = store_blob(key, computed, i) && all_stored;
    if (keeps_company && s.kind == SegmentKind::kChunk)
      all_stored = store_variant(key, computed, i) && all_stored;
  }
  return all_stored;
}

}  // namespace tessera
