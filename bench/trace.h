#pragma once
// `tessera bench trace`: a seeded stream of questions over one corpus, answered under several
// configurations, each with a store of its own that is bounded and lives as long as the stream.
//
// Configurations take turns request by request, in an order that is drawn for each, so that a slow
// minute of the machine hits all alike. Not thread-safe.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "bench/trace_figures.h"
#include "bench/trace_requests.h"
#include "engine/request.h"
#include "model/model.h"
#include "reuse/policy.h"

namespace tessera {

// A policy and what is put on top of it.
struct TraceConfig {
  std::string name;  // "adacache+aca"
  std::string policy;
  PolicyOptions options;     // "+paper": hard_as_paper is set
  bool is_adaptive = false;  // "+aca"
};
// Reads such names; each gets `options`. Full prefill, which the others are held
// against, stands first whether it is named or not. Throws Error(kInvalidRequest) for an unknown
// name, one that is there twice, and a policy that reads a small model beside the one that answers.
std::vector<TraceConfig> trace_configs(std::span<const std::string> names,
                                       const PolicyOptions& options);
// Whether KV is made over approximate KV once at most, for which generations have ceilings.
bool is_bounded(const TraceConfig& config);

enum class StoreMode {
  kWarm,     // every passage is indexed before the first request
  kFilling,  // empty at first; what a request missed is stored after it
  kCold,     // empty, and stays so
};

struct TraceOptions {
  std::filesystem::path model_path;
  std::string model_name;
  std::string model_digest;
  LoadOptions load;
  int32_t n_threads = 0;
  int32_t n_ctx = 0;        // as EngineOptions
  int32_t sink_layer = -1;  // as EngineOptions

  std::vector<std::filesystem::path> question_files;
  std::filesystem::path corpus_file;  // passages to retrieve from, beside those of the questions
  StreamOptions stream;
  bool is_novel = false;  // no two requests have the same passages in the same order
  size_t n_requests = 100;
  std::vector<int32_t> top_k = {6};  // a run for each

  std::vector<TraceConfig> configs;
  AdaptiveContext adaptive;
  AnchorKind anchor = AnchorKind::kLeadin;
  int32_t max_tokens = 32;

  StoreMode mode = StoreMode::kWarm;
  uint64_t store_limit_bytes = 0;  // of each store, over its tiers; 0: none
  double store_share = 0;          // the same as a share of the corpus's own KV; 0: none
  uint64_t ram_limit_bytes = 0;    // of the RAM tier, out of that limit; 0: no RAM tier
  std::filesystem::path work_dir;  // scratch; must exist
  std::filesystem::path warm_dir;  // KV of the corpus, kept for later runs; empty: in work_dir

  // Not 0: instead, n_requests lists of passages so many times, at least 2, in new orders, for the
  // KL of KV that was made over such KV.
  int32_t n_generations = 0;
  size_t n_long_requests = 0;  // not 0: over stand-in blobs too, after the real run

  std::function<void(std::string_view)> note;  // progress for people
  // A request under a configuration, as soon as it is measured.
  std::function<void(const nlohmann::ordered_json&)> on_row;
  // Each number of passages as it ends, and what compares them.
  std::function<void(const TraceReport&)> on_report;
  std::stop_token stop;
};

// Whether a run is as those of AdaCache's paper, whose means are then targets: over all of the
// corpus in a warm store, six passages as they were retrieved.
bool is_of_paper(const TraceOptions& options, int32_t top_k);

// False: it was stopped, and what was measured until then has been given. Throws
// Error(kInvalidRequest) for files, numbers and requests that cannot be used, before anything is
// measured; Error(kIo) when the KV of a passage cannot be stored, Error(kCancelled) where it was
// stopped while passages were indexed, and what the engine throws.
bool bench_trace(const TraceOptions& options);

}  // namespace tessera
