#pragma once
// What the requests of a trace measured, and what it comes to. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bench/trace_figures.h"
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
  double answer_ms = 0;   // from the question's arrival to the end of its answer
  double publish_ms = 0;  // after the answer
  bool is_published = true;
  double f1 = 0;
  double exact_match = 0;  // 0 or 1
  double kl = 0;           // to full prefill of all passages, nats
  double top1 = 1;         // share of positions whose likeliest token is that of full prefill
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

// One line of a run's file; every soft hit names the keys that it was found by.
nlohmann::ordered_json record_of(const TraceRow& row);

// Of the tokens of all chunks that stood in prompts.
MatchShares match_shares(TraceRows rows);
double rows_share(TraceRows rows);

// Of mean TTFTs. Request by request: each resample takes the same ones of both.
Estimate ratio_of_means(TraceRows slower, TraceRows sooner, const Resamples& resamples);

// Per configuration; `resamples`: of the requests, of which there must be some.
std::vector<ConfigFigures> config_figures(const TraceTable& table, const Resamples& resamples);

// Nothing of requests without adaptive context.
std::optional<ContextFigures> context_figures(TraceRows rows);

// Hit shares of the first requests and of the last, but for full prefill; a floor for long traces
// alone.
std::vector<SteadyFigures> steady_figures(const TraceTable& table);

// KL to full prefill of the passages seen, soft hits and depth by generation, but for full prefill,
// where the requests are the same `n_lists` lists of passages again and again. Generations that
// were not finished are left out. `bounded`: the configurations that have ceilings.
std::vector<LineageFigures> lineage_figures(const TraceTable& table, size_t n_lists,
                                            const std::set<std::string>& bounded);

// Holds the requests that were run for real as well against what they were there.
void check_modelled(TraceRows real, TraceRows modelled, ModelledFigures& out);

}  // namespace tessera
