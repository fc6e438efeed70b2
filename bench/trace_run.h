#pragma once
// The real part of a trace: requests answered in the order of the stream under every
// configuration, each with an engine and a store of its own. Not thread-safe.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/trace.h"
#include "bench/trace_report.h"
#include "bench/trace_rig.h"
#include "engine/engine.h"

namespace tessera {

// What is asked in one run, the requests that are computed first.
struct TraceStream {
  int32_t top_k = 0;
  size_t n_shuffled = 0;
  std::vector<TraceRequest> requests;
};
// One for each number of passages. Throws Error(kInvalidRequest) for a prompt that is too long,
// before anything is measured, and as TraceRig::requests().
std::vector<TraceStream> draw_streams(const TraceOptions& options, TraceRig& rig);

// Says in a note what a request of run_trace() costs.
void note_price(const TraceOptions& options);

// A configuration with what it keeps from request to request, and its latest answer.
struct TraceLane {
  TraceConfig config;
  TraceStore store;
  std::unique_ptr<Engine> engine;
  Request request;
  Prefilled prefilled;
  Answer answer;
  double answer_ms = 0;  // from the question's arrival to the end of its answer
};
// Its store begins as `options.mode` says. Throws what TraceRig::warm_blobs() throws.
TraceLane open_lane(const TraceOptions& options, TraceRig& rig, const TraceConfig& config);

// Throws what Engine::prefill and Engine::generate throw.
void answer_request(const TraceOptions& options, const TraceData& data, const TraceRequest& asked,
                    TraceLane& lane);

struct Published {
  bool is_published = true;  // false: not all that was to be stored is
  double ms = 0;
};
// Stores what the latest answer left, as `options.mode` says. Throws Error(kCancelled) where a stop
// cut it short.
Published publish_answer(const TraceOptions& options, TraceLane& lane);

struct TraceOutcome {
  TraceTable table;                  // where it was stopped, of the requests that were finished
  std::vector<StoreFigures> stores;  // of all but full prefill, at the end
};
// Configurations take turns request by request, in an order that is drawn for each; what they store
// is stored when all have answered. Throws what bench_trace throws while it measures.
TraceOutcome run_trace(const TraceOptions& options, TraceRig& rig, int32_t top_k,
                       std::span<const TraceRequest> requests);

}  // namespace tessera
