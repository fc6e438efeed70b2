#pragma once
// The figures of a trace as a list of named results, for machines. Pure; thread-safe.
#include <vector>

#include "bench/bench.h"
#include "bench/trace_figures.h"

namespace tessera {

// Every figure under a name of its own, in a fixed order.
std::vector<BenchResult> results_of(const TraceReport& report);

}  // namespace tessera
