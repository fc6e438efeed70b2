#include "bench/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "bench/trace_long.h"
#include "bench/trace_pairs.h"
#include "bench/trace_report.h"
#include "bench/trace_rig.h"
#include "engine/compare.h"
#include "eval/metrics.h"

namespace tessera {
namespace {

constexpr std::string_view kAdaptiveSuffix = "+aca";
constexpr std::string_view kPaperSuffix = "+paper";
constexpr std::string_view kFull = "full";
constexpr size_t kResamples = 1000;  // of the intervals
constexpr int32_t kPaperTopK = 6;    // of the means that the paper reports

bool take_suffix(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

TraceConfig config_of(const std::string& name, const PolicyOptions& options) {
  TraceConfig config = {name, name, options};
  config.is_adaptive = take_suffix(config.policy, kAdaptiveSuffix);
  if (take_suffix(config.policy, kPaperSuffix)) config.options.hard_as_paper = true;
  const size_t unknown = config.policy.find('+');
  if (unknown != std::string::npos) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("configuration {} - nothing is known by {} - write POLICY, POLICY+aca, "
                            "POLICY+paper or POLICY+paper+aca",
                            name, config.policy.substr(unknown)));
  }
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

std::string minutes_text(double ms) {
  const double minutes = ms / 60'000;
  return minutes < 1 ? "less than a minute" : fmt::format("about {:.0f} min", minutes);
}

class RealRun {
 public:
  RealRun(const TraceOptions& options, TraceRig& rig, int32_t top_k)
      : o_(options), rig_(rig), top_k_(top_k), random_(options.stream.seed) {
    for (const TraceConfig& config : o_.configs) {
      Lane& lane = lanes_.emplace_back();
      lane.config = config;
      const bool is_warm = o_.mode == StoreMode::kWarm && config.policy != kFull;
      lane.store =
          open_trace_store(o_.work_dir, is_warm ? rig.warm_blobs() : StoredBlobs{}, rig.limits());
      lane.engine = rig.engine(*lane.store.chunks);
    }
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
    for (Lane& lane : lanes_) answer(lane, requests.back());
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
    for (const size_t lane : order) answer(lanes_[lane], asked);
    measure(asked, number);
    for (Lane& lane : lanes_) publish(lane);
    give_rows();
  }

  void answer(Lane& lane, const TraceRequest& asked) {
    lane.request = request_for(o_, rig_.data(), lane.config, asked);
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
        row.kl = kl_to(references.at(n_given), lane);
        row.kl_seen = row.n_seen == n_given
                          ? row.kl
                          : kl_to(reference_of(row.n_seen, lane.request, references), lane);
      }
      lane.rows.push_back(std::move(row));
    }
  }

  double kl_to(const Reference& reference, Lane& lane) const {
    const std::vector<float> got = lane.engine->forced_logits(lane.prefilled, reference.tokens);
    const size_t n = std::min(got.size(), reference.logits.size());
    return distance_between(std::span(reference.logits).first(n), std::span(got).first(n),
                            lane.engine->decoder().config().n_vocab)
        .mean_kl;
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
  int32_t top_k_;
  std::mt19937_64 random_;  // for the order of the configurations
  std::vector<Lane> lanes_;
};

// What is asked in one run, the requests that are computed first.
struct Stream {
  int32_t top_k = 0;
  size_t n_shuffled = 0;
  std::vector<TraceRequest> requests;
};

// A prompt that is too long is refused before anything is measured.
std::vector<Stream> draw_streams(const TraceOptions& o, TraceRig& rig) {
  std::vector<Stream> out;
  for (const int32_t top_k : o.top_k) {
    Stream& stream = out.emplace_back();
    stream.top_k = top_k;
    stream.requests =
        rig.requests(std::max(o.n_requests, o.n_long_requests), top_k, stream.n_shuffled);
    for (const TraceRequest& asked : std::span(stream.requests).first(o.n_requests))
      rig.plain().prompt_of(request_for(o, rig.data(), o.configs.front(), asked));
  }
  return out;
}

StreamFigures stream_figures(const Stream& stream) {
  std::vector<PassageList> lists;
  std::set<size_t> distinct;  // questions
  for (const TraceRequest& r : stream.requests) {
    lists.push_back(r.passages);
    distinct.insert(r.question);
  }
  StreamFigures out;
  out.n_requests = stream.requests.size();
  out.repeated_questions =
      1 - static_cast<double>(distinct.size()) / static_cast<double>(out.n_requests);
  out.repeated_lists = repeated_share(lists);
  out.n_shuffled = stream.n_shuffled;
  out.top_tenth_share = top_tenth_share(lists);
  return out;
}

// Each configuration answers, full prefill's answer is scored under all of them, and full prefill
// answers once more over the passages that an adaptive one saw.
size_t prefills_a_request(std::span<const TraceConfig> configs) {
  const auto n_adaptive = std::ranges::count(configs, true, &TraceConfig::is_adaptive);
  return configs.size() + 1 + static_cast<size_t>(n_adaptive);
}

void give(const TraceOptions& o, const TraceReport& report) {
  if (o.on_report) o.on_report(report);
}

void add_figures(const TraceOptions& o, const TraceTable& table, RunReport& report) {
  const std::vector<TraceRow>& full = table.rows.front();
  report.n_requests = full.size();
  report.n_given = mean_of(full, [](const TraceRow& r) { return r.n_given; });
  report.is_cold = o.mode == StoreMode::kCold;
  report.is_of_paper = is_of_paper(o, report.top_k);
  const Resamples resamples(full.size(), kResamples, o.stream.seed);
  report.configs = config_figures(table, resamples);
  report.pairs = pair_figures(table, resamples);
  report.f1_differences = f1_differences(table, resamples, report.is_of_paper);
  report.sources = source_figures(table);
  if (o.is_novel && o.n_long_requests == 0) report.steady = steady_figures(table);
}

// Nothing when it was stopped: what was measured has been given then too.
std::optional<TopKRatios> run_top_k(const TraceOptions& o, TraceRig& rig, const Stream& stream) {
  RunReport report;
  report.model = o.model_name;
  report.top_k = stream.top_k;
  TraceTable table;
  {
    RealRun run(o, rig, stream.top_k);
    table = run.run(std::span(stream.requests).first(o.n_requests));
    if (table.rows.front().empty()) return std::nullopt;
    report.stream = stream_figures(stream);
    report.stores = run.stores();
  }
  add_figures(o, table, report);
  give(o, report);
  if (!table.is_complete) return std::nullopt;
  if (o.n_long_requests > 0) {
    LongReport modelled;
    modelled.model = o.model_name;
    modelled.top_k = stream.top_k;
    const bool is_complete = bench_trace_long(o, rig, {stream.requests, table}, modelled);
    if (modelled.n_requests > 0) give(o, modelled);
    if (!is_complete) return std::nullopt;
  }
  return TopKRatios{stream.top_k, ttft_ratio(table, kFull, "adacache+aca"),
                    ttft_ratio(table, kFull, "prefix")};
}

// The same passages again and again in new orders, each time after what the time before left
// behind.
bool run_generations(const TraceOptions& o, TraceRig& rig, const Stream& first) {
  std::vector<TraceRequest> all;
  std::vector<PassageList> lists;
  for (int32_t g = 0; g < o.n_generations; ++g) {
    for (const TraceRequest& r : first.requests) {
      all.push_back(r);
      lists.push_back(r.passages);
    }
  }
  make_novel(lists, o.stream.seed);
  for (size_t i = 0; i < all.size(); ++i) all[i].passages = std::move(lists[i]);
  RealRun run(o, rig, first.top_k);
  const TraceTable table = run.run(all);
  if (table.rows.front().empty()) return false;
  GenerationsReport report;
  report.model = o.model_name;
  report.top_k = first.top_k;
  report.n_lists = first.requests.size();
  std::set<std::string> bounded;
  for (const TraceConfig& config : o.configs)
    if (is_bounded(config)) bounded.insert(config.name);
  report.configs = lineage_figures(table, report.n_lists, bounded);
  report.stores = run.stores();
  give(o, report);
  return table.is_complete;
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

bool is_bounded(const TraceConfig& config) {
  return config.policy == "adacache" && !config.options.hard_as_paper;
}

bool is_of_paper(const TraceOptions& options, int32_t top_k) {
  const bool has_limit = options.store_limit_bytes > 0 || options.store_share > 0;
  return options.mode == StoreMode::kWarm && !has_limit && !options.is_novel && top_k == kPaperTopK;
}

bool bench_trace(const TraceOptions& options) {
  TraceRig rig(options);
  rig.limits();  // one that cannot be held is refused first
  const std::vector<Stream> streams = draw_streams(options, rig);
  if (options.note) {
    options.note(fmt::format("{} configurations: a request costs up to about {} full prefills",
                             options.configs.size(), prefills_a_request(options.configs)));
  }
  if (options.n_generations > 0) return run_generations(options, rig, streams.front());
  std::vector<TopKRatios> ratios;
  for (const Stream& stream : streams) {
    const std::optional<TopKRatios> of_run = run_top_k(options, rig, stream);
    if (!of_run) return false;
    ratios.push_back(*of_run);
  }
  if (ratios.size() > 1 && (ratios.front().adaptive || ratios.front().prefix)) {
    std::ranges::sort(ratios, {}, &TopKRatios::top_k);
    give(options, TopKReport{options.model_name, std::move(ratios)});
  }
  return true;
}

}  // namespace tessera
