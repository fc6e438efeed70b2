#include "engine/chunk_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/error.h"

namespace tessera {
ChunkBuilder::ChunkBuilder(Decoder& decoder, WorkingKv& kv, ChunkStore& store,
                           const KvDomain& domain)
    : decoder_(decoder), kv_(kv), store_(store), domain_(domain), front_(decoder, kv) {}

ChunkBuilder::Outcome ChunkBuilder::store_chunk(const KeyContext& context,
                                                std::span<const int32_t> ids,
                                                const std::stop_token& stop) {
  CHECK(!ids.empty());
  const ChunkKey key = key_of(domain_, context, ids);
  if (store_.contains(key)) return Outcome::kPresent;
  const size_t n = context.before.size() + ids.size();
  if (n > static_cast<size_t>(kv_.n_slots())) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("a chunk of {} tokens behind an anchor of {} does not fit into the "
                            "context of {} - split it smaller",
                            ids.size(), context.before.size(), kv_.n_slots()));
  }
  rows_computed_ += front_.put(context.before, stop);
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(context.before.size()));
  StepOptions options;
  options.capture_kv = true;
  StepResult result = decoder_.prefill({&kv_, ids, positions}, options, stop);
  rows_computed_ += static_cast<int64_t>(ids.size());
  if (!is_finite_f16(result.captured)) return Outcome::kNotStored;
  auto chunk = std::make_shared<const KvChunk>(domain_.geometry,
                                               std::vector<int32_t>(ids.begin(), ids.end()),
                                               Lineage{}, std::move(result.captured));
  return store_.put(key, chunk) ? Outcome::kBuilt : Outcome::kNotStored;
}

ChunkBuilder::Outcome ChunkBuilder::build(const Anchor& anchor, std::span<const int32_t> ids,
                                          const std::stop_token& stop) {
  return store_chunk({Match::kIndependent, anchor.kind, anchor.ids}, ids, stop);
}

ChunkBuilder::Outcome ChunkBuilder::build_preamble(std::span<const int32_t> ids,
                                                   const std::stop_token& stop) {
  return store_chunk({Match::kExact, AnchorKind::kBare, {}}, ids, stop);
}

}  // namespace tessera
