#include "bench/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "bench/trace_long.h"
#include "bench/trace_report.h"
#include "bench/trace_rig.h"
#include "engine/compare.h"
#include "eval/metrics.h"

namespace tessera {
namespace {

constexpr std::string_view kAdaptiveSuffix = "+aca";
constexpr std::string_view kPaperSuffix = "+paper";
constexpr std::string_view kFull = "full";

bool take_suffix(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

TraceConfig config_of(const std::string& name, const PolicyOptions& options) {
  TraceConfig config = {name, name, options};
  config.is_adaptive = take_suffix(config.policy, kAdaptiveSuffix);
  if (take_suffix(config.policy, kPaperSuffix)) config.options.hard_as_paper = true;
  if (Engine::needs_scorer(config.policy, options)) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("configuration {} - reads a small model beside the one that answers, "
                            "and a trace has none - leave it out",
                            name));
  }
  return config;
}

// A configuration with what it keeps from request to request, and its latest answer.
struct Lane {
  TraceConfig config;
  TraceStore store;
  std::unique_ptr<Engine> engine;
  Request request;
  Prefilled prefilled;
  Answer answer;
  std::vector<TraceRow> rows;
};

// Which chunk of the prompt each segment is, or -1.
std::vector<int32_t> chunk_numbers(std::span<const Segment> segments) {
  std::vector<int32_t> out;
  int32_t next = 0;
  for (const Segment& s : segments) out.push_back(s.kind == SegmentKind::kChunk ? next++ : -1);
  return out;
}

// Of chunks with computed rows: of others none can be read off.
std::vector<ReadSink> sinks_of(const Prefilled& p) {
  std::vector<ReadSink> out;
  const std::vector<int32_t> numbers = chunk_numbers(p.plan.segments);
  for (size_t i = 0; i < p.sinks.size(); ++i) {
    const Account part = account_of({{p.plan.segments[i]}, p.plan.rows});
    if (numbers[i] < 1 || part.rows() == 0) continue;
    out.push_back({numbers[i], p.sinks[i] < 0 ? -1 : numbers[static_cast<size_t>(p.sinks[i])]});
  }
  return out;
}

class RealRun {
 public:
  RealRun(const TraceOptions& options, TraceRig& rig) : o_(options), rig_(rig) {
    for (const TraceConfig& config : o_.configs) {
      Lane& lane = lanes_.emplace_back();
      lane.config = config;
      const bool is_warm = o_.mode == StoreMode::kWarm && config.policy != kFull;
      lane.store = open_trace_store(
          o_.work_dir, is_warm ? rig.warm_blobs() : std::filesystem::path(), rig.limits());
      lane.engine = rig.engine(*lane.store.chunks);
    }
  }

  TraceTable run(std::span<const TraceRequest> requests) {
    warm_up(requests.front());
    for (size_t i = 0; i < requests.size(); ++i) {
      if (o_.note)
        o_.note(fmt::format("{}: request {} of {}", o_.model_name, i + 1, requests.size()));
      for (size_t n = 0; n < lanes_.size(); ++n)
        answer(lanes_[(i + n) % lanes_.size()], requests[i]);
      measure(requests[i], i);
      for (Lane& lane : lanes_) publish(lane);
      give_rows();
    }
    TraceTable table;
    for (Lane& lane : lanes_) {
      table.configs.push_back(lane.config.name);
      table.rows.push_back(std::move(lane.rows));
    }
    return table;
  }

  void report_stores(ResultList& results) const {
    for (const Lane& lane : lanes_) {
      if (lane.config.policy == kFull) continue;
      const TierStats disk = lane.store.chunks->tiers().back()->stats();
      const std::string& name = lane.config.name;
      results.add(name + " chunks in the store at the end", static_cast<double>(disk.entries),
                  "chunks");
      results.add(name + " bytes of the store at the end", static_cast<double>(disk.bytes) / 1e6,
                  "MB");
      results.add(name + " variants at the end",
                  static_cast<double>(lane.store.chunks->variants()->stats().entries), "variants");
    }
  }

 private:
  Request request_for(const TraceConfig& config, const TraceRequest& asked) const {
    Request r;
    for (const size_t p : asked.passages) r.passages.push_back(rig_.data().passages[p]);
    r.question = rig_.data().questions[asked.question].question;
    r.policy = config.policy;
    r.policy_options = config.options;
    if (config.is_adaptive) r.adaptive = o_.adaptive;
    r.anchor = o_.anchor;
    r.max_tokens = o_.max_tokens;
    return r;
  }

  // Memory that is touched for the first time costs the request that does so. Full prefill asks the
  // store for nothing, so it leaves no trace there.
  void warm_up(const TraceRequest& asked) {
    for (Lane& lane : lanes_) {
      Request request = request_for(lane.config, asked);
      request.policy = kFull;
      request.adaptive.reset();
      lane.engine->prefill(request, o_.stop);
    }
  }

  void answer(Lane& lane, const TraceRequest& asked) {
    lane.request = request_for(lane.config, asked);
    lane.prefilled = {};  // its pins
    lane.prefilled = lane.engine->prefill(lane.request, o_.stop);
    lane.prefilled.timings.retrieve_ms = asked.retrieve_ms;
    lane.answer = lane.engine->generate(lane.request, lane.prefilled, {}, o_.stop);
    CHECK(lane.answer.account.total() == static_cast<int32_t>(lane.prefilled.prompt.ids.size()));
    for (const SegmentReport& s : lane.answer.segments)
      CHECK(s.match != Match::kSoft || !s.matched_predecessor.empty() || !s.matched_sink.empty());
  }

  // Each engine's working KV still holds its prompt.
  void measure(const TraceRequest& asked, size_t number) {
    Lane& full = lanes_.front();
    std::vector<int32_t> tokens = full.answer.tokens;
    tokens.resize(std::min<size_t>(tokens.size(), kCompareTokens));
    const std::vector<float> expected = full.engine->forced_logits(full.prefilled, tokens);
    const int32_t n_vocab = full.engine->decoder().config().n_vocab;
    for (Lane& lane : lanes_) {
      TraceRow row = row_of(lane, asked, number);
      row.n_full = full.answer.account.total();
      if (&lane != &full) {
        const std::vector<float> got = lane.engine->forced_logits(lane.prefilled, tokens);
        const size_t n = std::min(got.size(), expected.size());
        row.kl = distance_between(std::span(expected).first(n), std::span(got).first(n), n_vocab)
                     .mean_kl;
      }
      lane.rows.push_back(std::move(row));
    }
  }

  TraceRow row_of(const Lane& lane, const TraceRequest& asked, size_t number) const {
    const TraceQuestion& question = rig_.data().questions[asked.question];
    const Answer& a = lane.answer;
    TraceRow row;
    row.request = number;
    row.question = question.id;
    row.config = lane.config.name;
    row.account = a.account;
    row.rows = a.account.rows() + a.probe_rows + (a.adaptive ? a.adaptive->repeated_rows : 0);
    row.ttft_ms = a.timings.ttft_ms();
    row.f1 = token_f1(a.text, question.answers);
    row.exact_match = is_exact_match(a.text, question.answers) ? 1 : 0;
    row.n_given = static_cast<int32_t>(asked.passages.size());
    row.n_seen = a.adaptive ? a.adaptive->n_seen : row.n_given;
    row.adaptive = a.adaptive;
    row.segments = a.segments;
    row.sinks = sinks_of(lane.prefilled);
    row.answer = a.text;
    for (const SegmentReport& s : a.segments) {
      if (s.kind != SegmentKind::kChunk) continue;
      row.chunk_tokens += s.n_tokens;
      row.found_tokens += s.match == Match::kMiss ? 0 : s.n_tokens;
    }
    return row;
  }

  void publish(Lane& lane) {
    if (o_.mode == StoreMode::kCold) return;
    const Stopwatch watch;
    TraceRow& row = lane.rows.back();
    row.is_published = lane.engine->commit(lane.request, lane.prefilled, o_.stop);
    row.publish_ms = watch.ms();
    // What a stop has cut short is no measurement.
    if (o_.stop.stop_requested())
      throw Error(ErrorCode::kCancelled, "stopped while chunks were being stored");
  }

  void give_rows() const {
    if (!o_.on_row) return;
    for (const Lane& lane : lanes_) o_.on_row(record_of(lane.rows.back()));
  }

  const TraceOptions& o_;
  TraceRig& rig_;
  std::vector<Lane> lanes_;
};

void report_stream(std::span<const TraceRequest> requests, size_t n_shuffled, ResultList& results) {
  std::vector<PassageList> lists;
  std::vector<size_t> questions;
  for (const TraceRequest& r : requests) {
    lists.push_back(r.passages);
    questions.push_back(r.question);
  }
  const std::set<size_t> distinct(questions.begin(), questions.end());
  const auto n = static_cast<double>(requests.size());
  results.add("requests", n, "requests");
  results.add("questions asked before", 100 * (1 - static_cast<double>(distinct.size()) / n), "%");
  results.add("lists of passages retrieved before", 100 * repeated_share(lists), "%");
  results.add("lists reordered to be novel", static_cast<double>(n_shuffled), "lists");
  results.add("places taken by the most used tenth of the passages", 100 * top_tenth_share(lists),
              "%");
}

void require_requests(std::span<const TraceRequest> requests) {
  if (!requests.empty()) return;
  throw Error(ErrorCode::kInvalidRequest,
              "trace - no request is left to run - ask for at least one");
}

std::vector<BenchResult> run_top_k(const TraceOptions& o, TraceRig& rig, int32_t top_k) {
  ResultList results(fmt::format("{} trace top-{}", o.model_name, top_k));
  size_t n_shuffled = 0;
  const size_t n_all = std::max(o.n_requests, o.n_long_requests);
  const std::vector<TraceRequest> all = rig.requests(n_all, top_k, n_shuffled);
  const std::span<const TraceRequest> real = std::span(all).first(o.n_requests);
  require_requests(real);
  report_stream(all, n_shuffled, results);
  TraceTable table;
  {
    RealRun run(o, rig);
    table = run.run(real);
    run.report_stores(results);
  }
  summarise(table, o.stream.seed, results);
  if (o.is_novel && o.n_long_requests == 0) summarise_steady_state(table, results);
  std::vector<BenchResult> out = results.take();
  if (o.n_long_requests > 0) {
    const std::vector<BenchResult> modelled = bench_trace_long(o, rig, {top_k, all, table});
    out.insert(out.end(), modelled.begin(), modelled.end());
  }
  return out;
}

// The same passages again and again in new orders, each time after what the time before left
// behind.
std::vector<BenchResult> run_generations(const TraceOptions& o, TraceRig& rig) {
  const int32_t top_k = o.top_k.front();
  ResultList results(fmt::format("{} trace generations top-{}", o.model_name, top_k));
  size_t n_shuffled = 0;
  const std::vector<TraceRequest> first = rig.requests(o.n_requests, top_k, n_shuffled);
  require_requests(first);
  std::vector<TraceRequest> all;
  std::vector<PassageList> lists;
  for (int32_t g = 0; g < o.n_generations; ++g) {
    for (const TraceRequest& r : first) {
      all.push_back(r);
      lists.push_back(r.passages);
    }
  }
  make_novel(lists, o.stream.seed);
  for (size_t i = 0; i < all.size(); ++i) all[i].passages = std::move(lists[i]);
  RealRun run(o, rig);
  const TraceTable table = run.run(all);
  summarise_generations(table, static_cast<size_t>(o.n_generations), results);
  run.report_stores(results);
  return results.take();
}

}  // namespace

std::vector<TraceConfig> trace_configs(std::span<const std::string> names,
                                       const PolicyOptions& options) {
  std::vector<TraceConfig> out = {{std::string(kFull), std::string(kFull), options}};
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::kInvalidRequest,
                  fmt::format("configuration {} - is named twice - name it once", name));
    }
    if (name != kFull) out.push_back(config_of(name, options));
  }
  return out;
}

std::vector<BenchResult> bench_trace(const TraceOptions& options) {
  TraceRig rig(options);
  if (options.n_generations > 0) return run_generations(options, rig);
  std::vector<BenchResult> all;
  for (const int32_t top_k : options.top_k) {
    const std::vector<BenchResult> results = run_top_k(options, rig, top_k);
    all.insert(all.end(), results.begin(), results.end());
  }
  return all;
}

}  // namespace tessera
