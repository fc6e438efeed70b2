#pragma once
// What the requests of a trace measured, and what it comes to. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "engine/engine.h"
#include "eval/statistics.h"

namespace tessera {

// Which earlier chunk a chunk's rows attend to most. Chunks of a prompt are counted from 0.
struct ReadSink {
  int32_t chunk = 0;
  int32_t sink = 0;
};

struct TraceRow {
  size_t request = 0;
  int32_t top_k = 0;
  std::string question;  // id
  std::string source;    // file of the question
  std::string config;
  Account account;
  int32_t n_full = 0;  // tokens of the prompt with all passages
  double rows = 0;     // computed, the probe's and repeated ones included
  double ttft_ms = 0;
  double publish_ms = 0;  // after the answer
  bool is_published = true;
  double f1 = 0;
  double exact_match = 0;  // 0 or 1
  double kl = 0;           // to full prefill of all passages, nats
  double kl_seen = 0;      // to full prefill of the passages that were seen, nats
  int32_t n_given = 0;     // passages
  int32_t n_seen = 0;
  std::optional<AdaptiveReport> adaptive;
  std::vector<SegmentReport> segments;
  std::vector<ReadSink> sinks;
  std::string answer;
};

// Under each configuration the same requests in the same order; full prefill is the first.
struct TraceTable {
  std::vector<std::string> configs;
  std::vector<std::vector<TraceRow>> rows;  // [configs, requests]
  bool is_complete = true;                  // else the run was stopped behind these
};

using TraceRows = std::span<const TraceRow>;
using RowValue = std::function<double(const TraceRow&)>;

std::vector<double> values_of(TraceRows rows, const RowValue& value);
double mean_of(TraceRows rows, const RowValue& value);  // 0 where there are none
double mean_ttft(TraceRows rows);

struct IntervalTargets {
  std::optional<double> value;  // at least
  std::optional<double> low;    // of the interval: at least
};

// Results under one heading.
class ResultList {
 public:
  explicit ResultList(std::string heading) : heading_(std::move(heading)) {}
  void add(std::string_view name, double value, std::string unit,
           std::optional<double> target = std::nullopt, bool at_most = false);
  // The value, then the ends of its interval.
  void add_interval(const std::string& name, const Estimate& estimate, const std::string& unit,
                    const IntervalTargets& targets = {});
  bool empty() const { return results_.empty(); }
  std::vector<BenchResult> take() { return std::move(results_); }

 private:
  std::string heading_;
  std::vector<BenchResult> results_;
};

// One line of a run's file; every soft hit names the keys that it was found by.
nlohmann::ordered_json record_of(const TraceRow& row);

struct TierShare {
  std::string_view name;
  double share = 0;  // 0..1
};
// Hard, soft, independent, miss: of the tokens of all chunks that stood in prompts.
std::vector<TierShare> tier_shares(TraceRows rows);

// Per configuration hit shares, rows, times, quality and passages seen. `resamples`: of the
// requests.
void summarise(const TraceTable& table, const Resamples& resamples, ResultList& results);

// Of requests with adaptive context how many passages they saw and why they stopped; nothing of
// others.
void summarise_context(TraceRows rows, const std::string& name, ResultList& results);

// What a modelled run can say: hit shares, rows and mean times.
void summarise_model(const TraceTable& table, ResultList& results);

// Hit shares of the first requests and of the last; a target for long traces alone.
void summarise_steady_state(const TraceTable& table, ResultList& results);

// KL, soft hits and depth by generation, where the requests are the same `n_lists` lists of
// passages again and again. Generations that were not finished are left out.
void summarise_generations(const TraceTable& table, size_t n_lists, ResultList& results);

}  // namespace tessera
