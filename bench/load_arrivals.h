#pragma once
// When the requests of a real trace came. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bench/load_queue.h"

namespace tessera {

// Seconds, ascending, from the lines of a trace: either JSON objects with "timestamp" in ms, as
// Mooncake's traces are, or CSV whose first line names a column TIMESTAMP of times as in
// "2023-11-16 18:17:03.97", as those of Azure are. Everything else in a line is passed over. Throws
// Error(kInvalidRequest) that names the line.
std::vector<double> parse_arrivals(std::string_view text, std::string_view origin);

// Runs that each are `n_requests` arrivals in a row, from a place in the trace that is drawn; the
// unit is the mean of the whole trace, so that a busy stretch of it stays one. Throws
// Error(kInvalidRequest) naming `origin` where the trace is too short, or no time passes in it.
std::vector<Gaps> trace_gaps(std::span<const double> arrivals, std::string_view origin,
                             size_t n_runs, size_t n_requests, uint64_t seed);

}  // namespace tessera
