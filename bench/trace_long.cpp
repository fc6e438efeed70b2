#include "bench/trace_long.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "bench/trace_pairs.h"
#include "engine/chunk_lookup.h"
#include "engine/publisher.h"
#include "reuse/policy.h"
#include "text/prompt.h"

namespace tessera {
namespace {

constexpr KvGeometry kStandIn = {1, 32};  // 128 bytes a token
const KeyContext kOfPreamble = {.match = Match::kExact};

bool looks_for(const ReusePolicy& policy, Match match) {
  const std::vector<Match> lookups = policy.lookups();
  return std::find(lookups.begin(), lookups.end(), match) != lookups.end();
}

std::span<const int32_t> ids_of(const Prompt& prompt, const Segment& s) {
  return std::span(prompt.ids)
      .subspan(static_cast<size_t>(s.range.begin), static_cast<size_t>(s.range.size()));
}

// Where the sinks of chunks were in the real run, by the chunk's place in the prompt.
class SinkModel {
 public:
  // Only of runs that read them off at every chunk: those that look for soft matches, with all
  // passages.
  SinkModel(std::span<const TraceConfig> configs, const TraceTable& real) {
    for (size_t i = 0; i < configs.size(); ++i) {
      const std::unique_ptr<ReusePolicy> policy =
          make_policy(configs[i].policy, configs[i].options);
      if (!configs[i].is_adaptive && looks_for(*policy, Match::kSoft)) add(real.rows[i]);
    }
  }

  // Per segment the segment of its sink, or -1. The same chunks in the same order have the same.
  std::vector<int32_t> sinks_of(const Prompt& prompt) const {
    std::vector<int32_t> out(prompt.segments.size(), -1);
    std::vector<int32_t> chunks;  // segments that are chunks
    for (size_t i = 0; i < out.size(); ++i) {
      const Segment& s = prompt.segments[i];
      if (s.kind != SegmentKind::kChunk) continue;
      const std::span<const int32_t> so_far =
          std::span(prompt.ids).first(static_cast<size_t>(s.range.end));
      const int32_t sink = draw(static_cast<int32_t>(chunks.size()), so_far);
      if (sink >= 0) out[i] = chunks[static_cast<size_t>(sink)];
      chunks.push_back(static_cast<int32_t>(i));
    }
    return out;
  }

 private:
  void add(TraceRows rows) {
    for (const TraceRow& row : rows) {
      for (const ReadSink& s : row.sinks) seen_[s.chunk].push_back(s.sink);
    }
  }

  int32_t draw(int32_t chunk, std::span<const int32_t> ids) const {
    const auto found = seen_.find(chunk);
    if (chunk == 0 || found == seen_.end()) return -1;
    std::mt19937_64 random(xxh3_64(std::as_bytes(ids)));
    return std::min(found->second[draw_below(random, found->second.size())], chunk - 1);
  }

  std::map<int32_t, std::vector<int32_t>> seen_;
};

// What a computed row cost in the real run, all that a request waits for included.
double row_ms_of(const std::vector<TraceRow>& rows) {
  double ms = 0, n_rows = 0;
  for (const TraceRow& row : rows) {
    ms += row.ttft_ms;
    n_rows += row.account.rows();
  }
  return n_rows > 0 ? ms / n_rows : 0;
}

struct StandInLane {
  std::string name;
  std::unique_ptr<ReusePolicy> policy;
  LookupRules rules;
  TraceStore store;
  double row_ms = 0;
  std::vector<TraceRow> rows;
};

class LongRun {
 public:
  LongRun(const TraceOptions& options, TraceRig& rig, const TraceTable& real)
      : o_(options), rig_(rig), sinks_(options.configs, real), domain_(rig.plain().domain()) {
    const double scale = static_cast<double>(rig.corpus_bytes(kStandIn)) /
                         static_cast<double>(rig.corpus_bytes(domain_.geometry));
    domain_.geometry = kStandIn;
    domain_.name_space = "trace-stand-in";
    limits_ = rig.limits();
    for (uint64_t* bytes : {&limits_.disk_bytes, &limits_.ram_bytes})
      *bytes = static_cast<uint64_t>(std::ceil(scale * static_cast<double>(*bytes)));
    const StoredBlobs blobs = o_.mode == StoreMode::kWarm ? make_blobs() : StoredBlobs{};
    for (size_t i = 0; i < o_.configs.size(); ++i) {
      if (!o_.configs[i].is_adaptive) add_lane(o_.configs[i], blobs, row_ms_of(real.rows[i]));
    }
  }

  TraceTable run(std::span<const TraceRequest> requests) {
    TraceTable table;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (o_.stop.stop_requested()) {
        table.is_complete = false;
        break;
      }
      constexpr size_t kNoteEvery = 100;
      if (o_.note && i % kNoteEvery == 0)
        o_.note(fmt::format("stand-in: request {} of {}", i + 1, requests.size()));
      const Prompt prompt = prompt_of(requests[i]);
      for (StandInLane& lane : lanes_) {
        lane.rows.push_back(ask(lane, prompt));
        lane.rows.back().request = i;
      }
    }
    for (StandInLane& lane : lanes_) {
      table.configs.push_back(lane.name);
      table.rows.push_back(std::move(lane.rows));
    }
    return table;
  }

  std::vector<double> row_ms() const {
    std::vector<double> out;
    for (const StandInLane& lane : lanes_) out.push_back(lane.row_ms);
    return out;
  }

 private:
  // In the order of the real ones.
  StoredBlobs make_blobs() {
    StoredBlobs out = {o_.work_dir / "stand-in", {}};
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(make_tier("disk", {.dir = out.folder, .limit_bytes = 0}));
    ChunkStore store(std::move(tiers));
    const KeyContext context = {
        Match::kIndependent, o_.anchor, rig_.plain().anchor(o_.anchor).ids, {}};
    for (const std::vector<int32_t>& ids : rig_.chunk_ids()) {
      require_put(store, context, ids);
      out.keys.push_back(key_of(domain_, context, ids));
    }
    const std::vector<int32_t>& preamble = rig_.plain().prompts().preamble_ids();
    require_put(store, kOfPreamble, preamble);
    out.keys.push_back(key_of(domain_, kOfPreamble, preamble));
    return out;
  }

  void require_put(ChunkStore& store, const KeyContext& context, std::span<const int32_t> ids) {
    if (put(store, context, ids)) return;
    throw Error(ErrorCode::kIo,
                fmt::format("a stand-in blob cannot be stored in {} - the disk may be full - make "
                            "room, or choose another folder",
                            o_.work_dir.string()));
  }

  std::vector<std::byte> payload_of(int32_t n_tokens) const {
    return std::vector<std::byte>(KvChunk::payload_bytes(domain_.geometry, n_tokens));
  }

  bool put(ChunkStore& store, const KeyContext& context, std::span<const int32_t> ids) const {
    const ChunkKey key = key_of(domain_, context, ids);
    if (store.contains(key)) return true;
    return store.put(key, std::make_shared<const KvChunk>(
                              domain_.geometry, std::vector<int32_t>(ids.begin(), ids.end()),
                              Lineage{}, payload_of(static_cast<int32_t>(ids.size()))));
  }

  void add_lane(const TraceConfig& config, const StoredBlobs& blobs, double row_ms) {
    StandInLane& lane = lanes_.emplace_back();
    lane.name = config.name;
    lane.policy = make_policy(config.policy, config.options);
    lane.rules.exact = looks_for(*lane.policy, Match::kExact);
    lane.rules.soft = looks_for(*lane.policy, Match::kSoft);
    lane.rules.independent = looks_for(*lane.policy, Match::kIndependent);
    lane.rules.trusts_approximate = lane.policy->trusts_approximate();
    lane.rules.anchor = o_.anchor;
    lane.rules.anchor_ids = rig_.plain().anchor(o_.anchor).ids;
    lane.store = open_trace_store(o_.work_dir, blobs, limits_);
    lane.row_ms = row_ms;
  }

  Prompt prompt_of(const TraceRequest& request) {
    const PromptBuilder& prompts = rig_.plain().prompts();
    PromptAssembler assembler;
    assembler.add(SegmentKind::kPreamble, prompts.preamble_ids());
    for (const size_t p : request.passages) assembler.add(SegmentKind::kChunk, rig_.chunk_ids()[p]);
    assembler.add(SegmentKind::kQuery,
                  prompts.query_ids(rig_.data().questions[request.question].question));
    return assembler.take();
  }

  std::vector<FoundSegment> look_up(StandInLane& lane, const Prompt& prompt) const {
    if (lane.policy->lookups().empty()) return std::vector<FoundSegment>(prompt.segments.size());
    ChunkLookup lookup(*lane.store.chunks, domain_, lane.rules);
    for (const Segment& s : prompt.segments) {
      const std::span<const int32_t> ids = ids_of(prompt, s);
      lookup.push(s.kind, {ids.begin(), ids.end()});
    }
    return lookup.finish();
  }

  TraceRow ask(StandInLane& lane, Prompt prompt) const {
    const std::vector<FoundSegment> found = look_up(lane, prompt);
    for (size_t i = 0; i < found.size(); ++i) prompt.segments[i].match = found[i].match;
    // How many rows a policy chooses does not hang on their scores, only which.
    const Scores scores = {std::vector<float>(prompt.ids.size()), {}};
    const ReusePlan plan = make_plan(prompt.segments, lane.policy->select(prompt.segments, scores));
    TraceRow row;
    row.config = lane.name;
    row.account = account_of(plan);
    CHECK(row.account.total() == static_cast<int32_t>(prompt.ids.size()));
    row.n_full = row.account.total();
    row.rows = row.account.rows();
    row.ttft_ms = lane.row_ms * row.rows;  // what looking up costs is in there
    for (const Segment& s : prompt.segments) {
      SegmentReport& report = row.segments.emplace_back();
      report.kind = s.kind;
      report.n_tokens = s.range.size();
      report.match = s.match;
    }
    if (o_.mode != StoreMode::kCold) publish(lane, prompt, plan, found);
    return row;
  }

  // As Engine::commit does.
  void publish(StandInLane& lane, const Prompt& prompt, const ReusePlan& plan,
               const std::vector<FoundSegment>& found) const {
    ChunkStore& store = *lane.store.chunks;
    count_uses(store, prompt, found);
    if (const std::optional<PublishRules> rules = publish_rules(*lane.policy)) {
      const std::vector<int32_t> sinks = sinks_.sinks_of(prompt);
      const auto payload = [&](size_t segment) {
        return payload_of(prompt.segments[segment].range.size());
      };
      Publisher publisher(store, domain_, *rules);
      publisher.publish({prompt, plan, found, sinks, o_.anchor, lane.rules.anchor_ids, payload});
    }
    if (lane.rules.independent) put_missed(store, prompt, lane.rules);
  }

  void count_uses(ChunkStore& store, const Prompt& prompt,
                  const std::vector<FoundSegment>& found) const {
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].match != Match::kSoft) continue;
      const ChunkKey chunk = identity_of(domain_, ids_of(prompt, prompt.segments[i]));
      store.variants()->count_use(chunk, found[i].key);
    }
  }

  void put_missed(ChunkStore& store, const Prompt& prompt, const LookupRules& rules) const {
    for (const Segment& s : prompt.segments) {
      if (s.match != Match::kMiss) continue;
      if (s.kind == SegmentKind::kPreamble) put(store, kOfPreamble, ids_of(prompt, s));
      if (s.kind == SegmentKind::kChunk)
        put(store, {Match::kIndependent, o_.anchor, rules.anchor_ids, {}}, ids_of(prompt, s));
    }
  }

  const TraceOptions& o_;
  TraceRig& rig_;
  SinkModel sinks_;
  KvDomain domain_;
  StoreLimits limits_;
  std::vector<StandInLane> lanes_;
};

}  // namespace

bool bench_trace_long(const TraceOptions& options, TraceRig& rig, const LongTrace& trace,
                      LongReport& report) {
  LongRun run(options, rig, trace.real);
  const std::vector<double> row_ms = run.row_ms();
  const TraceTable table = run.run(trace.requests);
  report.n_requests = table.rows.front().size();
  if (report.n_requests == 0) return false;
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const TraceRows rows = table.rows[i];
    ModelledFigures& c = report.configs.emplace_back();
    c.config = table.configs[i];
    c.row_ms = row_ms[i];
    c.matches = match_shares(rows);
    c.rows_share = rows_share(rows);
    c.ttft_mean = mean_ttft(rows);
    const auto at = std::find(trace.real.configs.begin(), trace.real.configs.end(), c.config);
    CHECK(at != trace.real.configs.end());
    check_modelled(trace.real.rows[static_cast<size_t>(at - trace.real.configs.begin())], rows, c);
  }
  report.pairs = modelled_pairs(table);
  report.steady = steady_figures(table);
  return table.is_complete;
}

}  // namespace tessera
