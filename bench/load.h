#pragma once
// `tessera bench load`: a stream of questions that comes at some rate to one engine, which answers
// in the order of arrival. What each request costs under each configuration is measured, in the
// order of the stream; its waits follow from that (load_queue.h), and a run in real time can check
// them. Not thread-safe.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load_queue.h"
#include "bench/trace.h"
#include "bench/trace_report.h"

namespace tessera {

// When an answer is good enough to count.
struct QualityBound {
  enum class Kind {
    kF1,    // F1 with the gold answer, at least
    kKl,    // mean KL(full || it) over full prefill's answer, at most; nats
    kTop1,  // share of that answer's tokens that are its likeliest too, at least
    kSame,  // the text of full prefill's answer
  };
  Kind kind = Kind::kF1;
  double limit = 0.5;
};
// "f1:0.5", "kl:0.1", "top1:0.9", "same"; nothing for what is none of these.
std::optional<QualityBound> quality_bound_from(std::string_view text);
// Of "ttft:800", ms; nothing for what is none.
std::optional<double> ttft_bound_from(std::string_view text);
bool is_good(const TraceRow& row, const TraceRow& full, const QualityBound& bound);

struct LoadBenchOptions {
  TraceOptions trace;                   // one number of passages, nothing but the real run
  std::vector<double> rates;            // requests a second; empty: shares of full's capacity
  std::filesystem::path arrivals_file;  // of a trace, in place of Poisson arrivals
  size_t n_runs = 200;                  // of arrivals, at each rate
  uint64_t arrival_seed = 1;
  double ttft_bound_ms = 0;  // 0: twice the median of full prefill without a queue
  QualityBound quality;
  double check_rate = 0;     // not 0: then one configuration runs in real time at that rate
  std::string check_config;  // empty: the last one
};

struct ConfigLoad {
  std::string config;
  std::vector<Service> services;  // in the order of the stream
  double capacity = 0;            // requests a second
  double highest_rate = 0;        // as highest_rate() gives it
  std::vector<QueueFigures> at;   // each of the rates
};

// One configuration in real time, beside what was computed for the same arrivals.
struct LoadCheck {
  std::string config;
  double rate = 0;
  std::vector<Service> services;  // as they were in that run
  QueueValues measured = {};
  QueueValues computed = {};    // from the times that were measured without a queue
  double recursion_off_ms = 0;  // greatest difference of a wait, computed from the run's own times
};

struct LoadReport {
  std::string model;
  int32_t top_k = 0;
  bool is_complete = true;  // else it was stopped behind what is here
  double ttft_bound_ms = 0;
  std::vector<double> rates;
  TraceTable table;                 // what was measured of each request
  std::vector<ConfigLoad> configs;  // none where it was stopped before the first request ended
  std::optional<LoadCheck> check;
};

// Share of requests that are to keep the bound of TTFT at the highest rate.
inline constexpr double kHeldShare = 0.9;

// Throws what bench_trace throws, and Error(kInvalidRequest) for a trace of arrivals that cannot be
// used and a check of a configuration that does not run, before anything is measured.
LoadReport bench_load(const LoadBenchOptions& options);

}  // namespace tessera
