#include "eval/stored_passages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text_util.h"

namespace tessera {
namespace {

// What is damaged is found only by reading, hence a second try.
constexpr int kTries = 2;

[[noreturn]] void fail_to_keep(std::string_view what, const std::string& id) {
  throw Error(ErrorCode::kIo,
              fmt::format("the {} of a passage of question {} is not in the store - it could not "
                          "be kept, and policies would be measured without it - make room "
                          "on the disk, raise --disk-limit or run 'tessera cache verify'",
                          what, quote(id)));
}

bool is_missed(const Segment& s) {
  const bool is_stored = s.kind == SegmentKind::kPreamble || s.kind == SegmentKind::kChunk;
  return is_stored && s.match == Match::kMiss;
}

void build(Engine& engine, const Request& request, const std::stop_token& stop) {
  ChunkBuilder builder = engine.builder();
  builder.build_preamble(engine.prompts().preamble_ids(), stop);
  for (const PassageText& p : request.passages)
    builder.build(engine.anchor(request.anchor), engine.prompts().chunk_ids(p.title, p.text), stop);
}

void build(Scorer& scorer, const Request& request, const std::string& id, const ReusePolicy& policy,
           const std::stop_token& stop) {
  for (const PassageText& p : request.passages) {
    if (scorer.build(p, policy.evidence(), policy.layers(), stop) == Scorer::Outcome::kNotStored)
      fail_to_keep("scorer's part", id);
  }
}

}  // namespace

Prefilled store_passages(Engine& engine, Request request, const std::string& id,
                         const std::stop_token& stop) {
  request.policy = "reuse";
  for (int tries = 0; tries < kTries; ++tries) {
    build(engine, request, stop);
    Prefilled warm = engine.prefill(request, stop);
    if (std::ranges::none_of(warm.plan.segments, is_missed)) return warm;
  }
  fail_to_keep("KV", id);
}

void store_for_scorer(Scorer& scorer, const Request& request, const std::string& id,
                      const ReusePolicy& policy, const std::stop_token& stop) {
  const bool has_kv =
      policy.evidence() == Evidence::kScorerAttention && scorer.context().store() != nullptr;
  for (int tries = 0; tries < (has_kv ? kTries : 1); ++tries) {
    build(scorer, request, id, policy, stop);
    if (has_kv) scorer.read(request, policy.evidence(), policy.layers(), stop);
  }
}

}  // namespace tessera
