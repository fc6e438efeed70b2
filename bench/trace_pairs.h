#pragma once
// How the configurations of a trace compare with each other, beside what AdaCache's paper reports.
// Pure; thread-safe.
#include <optional>
#include <string_view>
#include <vector>

#include "bench/trace_report.h"

namespace tessera {

// Mean TTFT of one over that of the other; nothing where either was not run.
std::optional<double> ttft_ratio(const TraceTable& table, std::string_view slower,
                                 std::string_view sooner);

// Each baseline with all others, then the pairs of the paper that are none of these. `resamples`:
// of the requests.
std::vector<PairFigures> pair_figures(const TraceTable& table, const Resamples& resamples);

// The ratios alone: all that modelled times can say.
std::vector<ModelledPair> modelled_pairs(const TraceTable& table);

// Of each configuration with adaptive context whose policy ran without it too. `has_target`: the
// run is of the paper's kind, and bounds the difference where it has requests enough.
std::vector<F1Difference> f1_differences(const TraceTable& table, const Resamples& resamples,
                                         bool has_target);

// Per file of questions how many passages were seen and what is gained over CacheBlend; nothing
// for one file.
std::vector<SourceFigures> source_figures(const TraceTable& table);

}  // namespace tessera
