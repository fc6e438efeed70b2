#pragma once
// How the configurations of a trace compare with each other, beside what AdaCache's paper reports.
// Pure; thread-safe.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bench/trace_report.h"

namespace tessera {

// Mean TTFT of one over that of the other; nothing where either was not run.
std::optional<double> ttft_ratio(const TraceTable& table, std::string_view slower,
                                 std::string_view sooner);

// Per pair the ratio of mean TTFTs, with what else it is to be judged by; then what adaptive
// context does to F1. `has_targets`: the run is of the paper's kind, so its means are targets.
void summarise_pairs(const TraceTable& table, const Resamples& resamples, bool has_targets,
                     ResultList& results);

// The ratios alone: all that modelled times can say.
void summarise_model_pairs(const TraceTable& table, ResultList& results);

// Per file of questions how many passages were seen and what is gained over CacheBlend; nothing
// for one file.
void summarise_sources(const TraceTable& table, ResultList& results);

struct TopKRatios {
  int32_t top_k = 0;
  std::optional<double> adaptive;  // full / adacache+aca
  std::optional<double> prefix;    // full / prefix
};
// Whether the lead grows with the passages; nothing for one number of them.
void summarise_top_k(std::vector<TopKRatios> ratios, ResultList& results);

}  // namespace tessera
