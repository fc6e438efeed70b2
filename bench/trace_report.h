#pragma once
// What the requests of a trace measured, and what it comes to. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "engine/engine.h"

namespace tessera {

// Chunks of a prompt are counted from 0. A sink of -1: none was read off.
struct ReadSink {
  int32_t chunk = 0;
  int32_t sink = -1;
};

struct TraceRow {
  size_t request = 0;
  std::string question;  // id
  std::string config;
  Account account;
  int32_t n_full = 0;        // tokens of the prompt with all passages
  int32_t chunk_tokens = 0;  // in the prompt that was answered
  int32_t found_tokens = 0;  // of these, whose KV was loaded
  double rows = 0;           // computed, the probe's and repeated ones included
  double ttft_ms = 0;
  double publish_ms = 0;  // after the answer
  bool is_published = true;
  double f1 = 0;
  double exact_match = 0;  // 0 or 1
  double kl = 0;           // to full prefill, nats
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
};

// Results under one heading.
class ResultList {
 public:
  explicit ResultList(std::string heading) : heading_(std::move(heading)) {}
  void add(std::string_view name, double value, std::string unit,
           std::optional<double> target = std::nullopt, bool at_most = false);
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
// Of all prompt tokens, by the parts of the account; then of the chunk tokens, those that were
// found.
std::vector<TierShare> tier_shares(std::span<const TraceRow> rows);

// Per configuration hit shares, rows, times, quality and passages seen; per pair the ratio of
// times, with the means that AdaCache's paper reports as targets. `seed`: of the intervals.
void summarise(const TraceTable& table, uint64_t seed, ResultList& results);

// The same of what a modelled run can say: hit shares, rows, times and their ratios, without
// targets.
void summarise_model(const TraceTable& table, ResultList& results);

// Share of chunk tokens that were found, in the first requests and in the last.
void summarise_steady_state(const TraceTable& table, ResultList& results);

// KL by generation, where the requests are `n_generations` times the same passages.
void summarise_generations(const TraceTable& table, size_t n_generations, ResultList& results);

double found_share(std::span<const TraceRow> rows);  // of chunk tokens; 0 where there is none

}  // namespace tessera
