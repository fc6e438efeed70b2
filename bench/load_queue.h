#pragma once
// One server that answers requests in the order in which they come: their waits, and what a run
// comes to. Pure; thread-safe.
//
// How long a request keeps the server does not depend on how long it waited, so the waits at any
// rate of arrivals follow exactly from times that were measured without a queue: W_0 = 0,
// W_n+1 = max(0, W_n + S_n - A_n+1), with S the time of a request at the server and A the time
// between two arrivals (Lindley 1952, "The theory of queues with a single server").
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "eval/statistics.h"

namespace tessera {

// A request, from when its turn comes.
struct Service {
  double first_token_ms = 0;  // until its first token
  double answer_ms = 0;       // until the end of its answer
  double total_ms = 0;        // until the next may begin: what it left is stored
  int32_t prompt_tokens = 0;
  bool is_good = false;  // its answer keeps the bound of quality
};

// From the beginning of the run.
struct Visit {
  double arrival_ms = 0;
  double wait_ms = 0;
};

// Times between arrivals, the first of them from the beginning of the run, in units of their mean.
using Gaps = std::vector<double>;

// As many runs of Poisson arrivals; the first ones are the same for any number of runs.
std::vector<Gaps> poisson_gaps(size_t n_runs, size_t n_requests, uint64_t seed);

// `rate`: requests a second. As many gaps as services.
std::vector<Visit> visits_at(std::span<const double> gaps, double rate,
                             std::span<const Service> services);

// What is known of a run.
enum QueueValue : size_t {
  kThroughput,      // answers a second, until the last one ends
  kPromptRate,      // prompt tokens a second
  kTtftMean,        // ms, waiting included
  kTtftP50,         // ms
  kTtftP90,         // ms
  kTtftP99,         // ms
  kWaitMean,        // ms
  kWaitP90,         // ms
  kQueueLength,     // requests that wait, mean over time (Little's law)
  kUtilisation,     // share of the time in which the server works
  kMetShare,        // of requests that keep the bound of TTFT
  kGoodput,         // such requests a second
  kQualityGoodput,  // those of them a second whose answer is good
  kSpan,            // s from the beginning of the run to the end of its last answer
  kNumQueueValues
};
using QueueValues = std::array<double, kNumQueueValues>;
// For machines, as in "ttft_p90_ms".
std::string_view queue_value_name(QueueValue value);

// There must be requests; as many visits as services. `bound_ms`: the longest TTFT that is good.
QueueValues queue_values(std::span<const Visit> visits, std::span<const Service> services,
                         double bound_ms);

// Mean over runs, with what 95% of the runs lie between. What is per time weighs a run by its span,
// as if all were one long run: short ones, which happened to be busy, would count too much.
using QueueFigures = std::array<Estimate, kNumQueueValues>;
QueueFigures queue_figures(std::span<const Gaps> runs, double rate,
                           std::span<const Service> services, double bound_ms);

// Requests a second, when there always is one: 1 / mean S.
double capacity_of(std::span<const Service> services);

// The highest rate at which `share` of the requests keep the bound, mean over the runs, to 0.1%. 0:
// there is none, however low; infinity: they do at any rate. By bisection, since no wait of a run
// gets shorter when its arrivals draw together.
double highest_rate(std::span<const Gaps> runs, std::span<const Service> services, double bound_ms,
                    double share);

}  // namespace tessera
