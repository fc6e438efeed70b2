#include "bench/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "bench/trace_long.h"
#include "bench/trace_pairs.h"
#include "bench/trace_report.h"
#include "bench/trace_rig.h"
#include "bench/trace_run.h"

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

StreamFigures stream_figures(const TraceStream& stream) {
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
std::optional<TopKRatios> run_top_k(const TraceOptions& o, TraceRig& rig,
                                    const TraceStream& stream) {
  RunReport report;
  report.model = o.model_name;
  report.top_k = stream.top_k;
  const auto [table, stores] =
      run_trace(o, rig, stream.top_k, std::span(stream.requests).first(o.n_requests));
  if (table.rows.front().empty()) return std::nullopt;
  report.stream = stream_figures(stream);
  report.stores = stores;
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
bool run_generations(const TraceOptions& o, TraceRig& rig, const TraceStream& first) {
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
  const auto [table, stores] = run_trace(o, rig, first.top_k, all);
  if (table.rows.front().empty()) return false;
  GenerationsReport report;
  report.model = o.model_name;
  report.top_k = first.top_k;
  report.n_lists = first.requests.size();
  std::set<std::string> bounded;
  for (const TraceConfig& config : o.configs)
    if (is_bounded(config)) bounded.insert(config.name);
  report.configs = lineage_figures(table, report.n_lists, bounded);
  report.stores = stores;
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
  const std::vector<TraceStream> streams = draw_streams(options, rig);
  note_price(options);
  if (options.n_generations > 0) return run_generations(options, rig, streams.front());
  std::vector<TopKRatios> ratios;
  for (const TraceStream& stream : streams) {
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
