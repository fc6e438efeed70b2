#include "bench/trace_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/compare.h"
#include "eval/metrics.h"

namespace tessera {
namespace {

constexpr std::string_view kFull = "full";

// Which chunk of the prompt each segment is, or -1.
std::vector<int32_t> chunk_numbers(std::span<const Segment> segments) {
  std::vector<int32_t> out;
  int32_t next = 0;
  for (const Segment& s : segments) out.push_back(s.kind == SegmentKind::kChunk ? next++ : -1);
  return out;
}

std::vector<ReadSink> sinks_of(const Prefilled& p) {
  std::vector<ReadSink> out;
  const std::vector<int32_t> numbers = chunk_numbers(p.plan.segments);
  for (size_t i = 0; i < p.sinks.size(); ++i) {
    if (p.sinks[i] >= 0) out.push_back({numbers[i], numbers[static_cast<size_t>(p.sinks[i])]});
  }
  return out;
}

Request request_for(const TraceOptions& o, const TraceData& data, const TraceConfig& config,
                    const TraceRequest& asked) {
  Request r;
  for (const size_t p : asked.passages) r.passages.push_back(data.passages[p]);
  r.question = data.questions[asked.question].question;
  r.policy = config.policy;
  r.policy_options = config.options;
  if (config.is_adaptive) r.adaptive = o.adaptive;
  r.anchor = o.anchor;
  r.max_tokens = o.max_tokens;
  return r;
}

StoreFigures store_figures(ChunkStore& store, const std::string& config) {
  StoreFigures out;
  out.config = config;
  std::map<ChunkKey, uint64_t> distinct;
  for (Tier* tier : store.tiers()) {
    tier->for_each([&](const TierEntry& entry) {
      distinct.emplace(entry.key, entry.bytes);
      out.held_bytes += entry.bytes;
      return true;
    });
  }
  out.n_chunks = distinct.size();
  for (const auto& [key, bytes] : distinct) out.bytes += bytes;
  out.n_variants = store.variants()->stats().entries;
  return out;
}

struct Lane : TraceLane {
  std::vector<TraceRow> rows;
};

std::string minutes_text(double ms) {
  const double minutes = ms / 60'000;
  return minutes < 1 ? "less than a minute" : fmt::format("about {:.0f} min", minutes);
}

// Each configuration answers, full prefill's answer is scored under all of them, and full prefill
// answers once more over the passages that an adaptive one saw.
size_t prefills_a_request(std::span<const TraceConfig> configs) {
  const auto n_adaptive = std::ranges::count(configs, true, &TraceConfig::is_adaptive);
  return configs.size() + 1 + static_cast<size_t>(n_adaptive);
}

class RealRun {
 public:
  RealRun(const TraceOptions& options, TraceRig& rig, int32_t top_k)
      : o_(options), rig_(rig), top_k_(top_k), random_(options.stream.seed) {
    for (const TraceConfig& config : o_.configs) lanes_.push_back({open_lane(o_, rig, config), {}});
  }

  TraceTable run(std::span<const TraceRequest> requests) {
    TraceTable table;
    size_t n_done = 0;
    try {
      discard(requests);
      const Stopwatch watch;
      for (; n_done < requests.size(); ++n_done) {
        note_request(n_done, requests.size(), watch.ms());
        ask_all(requests[n_done], n_done);
      }
    } catch (const Error& error) {  // what is finished is reported
      if (error.code() != ErrorCode::kCancelled) throw;
      table.is_complete = false;
    }
    for (Lane& lane : lanes_) {
      lane.rows.resize(n_done);
      table.configs.push_back(lane.config.name);
      table.rows.push_back(std::move(lane.rows));
    }
    return table;
  }

  std::vector<StoreFigures> stores() const {
    std::vector<StoreFigures> out;
    for (const Lane& lane : lanes_) {
      if (lane.config.policy != kFull)
        out.push_back(store_figures(*lane.store.chunks, lane.config.name));
    }
    return out;
  }

 private:
  using References = std::map<int32_t, Reference>;  // full prefill, by how many passages were seen

  // Memory and files that are touched for the first time cost the request that does so. Nothing is
  // stored of it, and what it loads is wanted again only at the end: it is the last one.
  void discard(std::span<const TraceRequest> requests) {
    for (Lane& lane : lanes_) answer_request(o_, rig_.data(), requests.back(), lane);
  }

  void note_request(size_t n_done, size_t n_requests, double ms) const {
    if (!o_.note) return;
    std::string left;
    if (n_done > 0) {
      const double done = static_cast<double>(n_done);
      left = fmt::format(", {} left",
                         minutes_text(ms / done * (static_cast<double>(n_requests) - done)));
    }
    o_.note(fmt::format("{}, top-{}: request {} of {}{}", o_.model_name, top_k_, n_done + 1,
                        n_requests, left));
  }

  void ask_all(const TraceRequest& asked, size_t number) {
    std::vector<size_t> order(lanes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    shuffle_values(order, random_);
    for (const size_t lane : order) answer_request(o_, rig_.data(), asked, lanes_[lane]);
    measure(asked, number);
    for (Lane& lane : lanes_) publish(lane);
    give_rows();
  }

  // Each engine's working KV still holds its prompt.
  void measure(const TraceRequest& asked, size_t number) {
    Lane& full = lanes_.front();
    const auto n_given = static_cast<int32_t>(asked.passages.size());
    Reference all = {full.answer, full.answer.tokens, {}};
    all.tokens.resize(std::min<size_t>(all.tokens.size(), kCompareTokens));
    all.logits = full.engine->forced_logits(full.prefilled, all.tokens);
    References references;
    references.emplace(n_given, std::move(all));
    for (Lane& lane : lanes_) {
      TraceRow row = row_of(lane, asked, number);
      row.n_full = full.answer.account.total();
      if (&lane != &full) {
        const Distance distance = distance_to(references.at(n_given), lane);
        row.kl = distance.mean_kl;
        row.top1 = distance.top1;
        row.kl_seen =
            row.n_seen == n_given
                ? row.kl
                : distance_to(reference_of(row.n_seen, lane.request, references), lane).mean_kl;
      }
      lane.rows.push_back(std::move(row));
    }
  }

  Distance distance_to(const Reference& reference, Lane& lane) const {
    const std::vector<float> got = lane.engine->forced_logits(lane.prefilled, reference.tokens);
    const size_t n = std::min(got.size(), reference.logits.size());
    return distance_between(std::span(reference.logits).first(n), std::span(got).first(n),
                            lane.engine->decoder().config().n_vocab);
  }

  // One for all that saw as many.
  const Reference& reference_of(int32_t n_seen, Request request, References& references) {
    const auto found = references.find(n_seen);
    if (found != references.end()) return found->second;
    request.passages.resize(static_cast<size_t>(n_seen));
    return references.emplace(n_seen, full_reference(rig_.plain(), std::move(request), o_.stop))
        .first->second;
  }

  TraceRow row_of(const Lane& lane, const TraceRequest& asked, size_t number) const {
    const TraceQuestion& question = rig_.data().questions[asked.question];
    const Answer& a = lane.answer;
    TraceRow row;
    row.request = number;
    row.top_k = top_k_;
    row.question = question.id;
    row.source = question.source;
    row.config = lane.config.name;
    row.account = a.account;
    row.rows = computed_rows(a);
    row.ttft_ms = a.timings.ttft_ms();
    row.answer_ms = lane.answer_ms;
    row.f1 = token_f1(a.text, question.answers);
    row.exact_match = is_exact_match(a.text, question.answers) ? 1 : 0;
    row.n_given = static_cast<int32_t>(asked.passages.size());
    row.n_seen = a.adaptive ? a.adaptive->n_seen : row.n_given;
    row.adaptive = a.adaptive;
    row.segments = a.segments;
    row.sinks = sinks_of(lane.prefilled);
    row.answer = a.text;
    return row;
  }

  void publish(Lane& lane) {
    const Published published = publish_answer(o_, lane);
    lane.rows.back().is_published = published.is_published;
    lane.rows.back().publish_ms = published.ms;
  }

  void give_rows() const {
    if (!o_.on_row) return;
    for (const Lane& lane : lanes_) o_.on_row(record_of(lane.rows.back()));
  }

  const TraceOptions& o_;
  TraceRig& rig_;
  int32_t top_k_;
  std::mt19937_64 random_;  // for the order of the configurations
  std::vector<Lane> lanes_;
};

}  // namespace

std::vector<TraceStream> draw_streams(const TraceOptions& o, TraceRig& rig) {
  std::vector<TraceStream> out;
  for (const int32_t top_k : o.top_k) {
    TraceStream& stream = out.emplace_back();
    stream.top_k = top_k;
    stream.requests =
        rig.requests(std::max(o.n_requests, o.n_long_requests), top_k, stream.n_shuffled);
    for (const TraceRequest& asked : std::span(stream.requests).first(o.n_requests))
      rig.plain().prompt_of(request_for(o, rig.data(), o.configs.front(), asked));
  }
  return out;
}

void note_price(const TraceOptions& o) {
  if (!o.note) return;
  o.note(fmt::format("{} configurations: a request costs up to about {} full prefills",
                     o.configs.size(), prefills_a_request(o.configs)));
}

TraceLane open_lane(const TraceOptions& o, TraceRig& rig, const TraceConfig& config) {
  TraceLane lane;
  lane.config = config;
  const bool is_warm = o.mode == StoreMode::kWarm && config.policy != kFull;
  lane.store =
      open_trace_store(o.work_dir, is_warm ? rig.warm_blobs() : StoredBlobs{}, rig.limits());
  lane.engine = rig.engine(*lane.store.chunks);
  return lane;
}

void answer_request(const TraceOptions& o, const TraceData& data, const TraceRequest& asked,
                    TraceLane& lane) {
  const Stopwatch watch;
  lane.request = request_for(o, data, lane.config, asked);
  lane.prefilled = {};  // its pins
  lane.prefilled = lane.engine->prefill(lane.request, o.stop);
  lane.prefilled.timings.retrieve_ms = asked.retrieve_ms;
  lane.answer = lane.engine->generate(lane.request, lane.prefilled, {}, o.stop);
  lane.answer_ms = asked.retrieve_ms + watch.ms();
  CHECK(lane.answer.account.total() == static_cast<int32_t>(lane.prefilled.prompt.ids.size()));
  for (const SegmentReport& s : lane.answer.segments)
    CHECK(s.match != Match::kSoft || !s.matched_predecessor.empty() || !s.matched_sink.empty());
}

Published publish_answer(const TraceOptions& o, TraceLane& lane) {
  if (o.mode == StoreMode::kCold) return {};
  const Stopwatch watch;
  Published out;
  out.is_published = lane.engine->commit(lane.request, lane.prefilled, o.stop);
  out.ms = watch.ms();
  // What a stop has cut short is no measurement.
  if (o.stop.stop_requested())
    throw Error(ErrorCode::kCancelled, "stopped while chunks were being stored");
  return out;
}

TraceOutcome run_trace(const TraceOptions& options, TraceRig& rig, int32_t top_k,
                       std::span<const TraceRequest> requests) {
  RealRun run(options, rig, top_k);
  TraceOutcome out;
  out.table = run.run(requests);
  if (!out.table.rows.front().empty()) out.stores = run.stores();
  return out;
}

}  // namespace tessera
