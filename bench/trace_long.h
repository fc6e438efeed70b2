#pragma once
// Traces that are too long to compute: the production store, lookup, variant index and publishing
// over small stand-in blobs, with compute modelled by what a row cost in a real run. The limits of
// the store shrink as the blobs do. What no store knows is drawn from the real run as well: which
// earlier chunk a chunk attends to most.
#include <span>

#include "bench/trace.h"
#include "bench/trace_report.h"
#include "bench/trace_rig.h"

namespace tessera {

struct LongTrace {
  std::span<const TraceRequest> requests;
  const TraceTable& real;  // the same options over the first of the requests: the check
};

// Configurations with adaptive context are left out: where it stops, only a model can say. False:
// it was stopped, and `report` is of the requests before that. Throws Error(kIo) when a stand-in
// blob cannot be stored.
bool bench_trace_long(const TraceOptions& options, TraceRig& rig, const LongTrace& trace,
                      LongReport& report);

}  // namespace tessera
