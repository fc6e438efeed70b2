#pragma once
// Measures questions under policies, anchors and ratios, each beside full prefill, and adds a row
// for each to a run's log. Uses the engine it is given, greedy; not thread-safe.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "eval/reference_cache.h"
#include "eval/run_log.h"
#include "eval/sample.h"

namespace tessera {

// The questions of one task.
struct EvalSet {
  std::string task;
  std::vector<Sample> samples;
};

struct EvalPlan {
  std::vector<EvalSet> sets;          // no two of one name
  std::vector<std::string> policies;  // full prefill is measured whether it is among them or not
  std::vector<double> ratios;
  std::vector<AnchorKind> anchors;
  PolicyOptions policy_options;  // the ratio and the seed are set for each row
  int32_t max_tokens = 32;
  uint64_t seed = 0;                    // of the policies that draw at random
  std::filesystem::path reference_dir;  // where full prefill's answers are kept; empty: nowhere
  uint64_t reference_limit_bytes = kReferenceLimitBytes;
  // What the numbers of full prefill depend on besides model and prompt: build, machine, threads,
  // weight layout. An answer of another one is not taken from the folder.
  std::string machine;
};

// One question that does not fit must not cost a run that has gone on for hours. Throws
// Error(kInvalidRequest) naming the first that is longer than the context.
void check_lengths(const Engine& engine, const std::vector<EvalSet>& sets);

// Every row that the plan asks for, once.
std::set<RowKey> planned_rows(const EvalPlan& plan);

struct EvalHooks {
  // After each row: how many of the plan's rows are there, and which one came last.
  std::function<void(size_t n_done, const RowKey& key)> progress;
  std::stop_token stop;
};

// Measures the rows of the plan that `log` lacks, question by question; each is added when it is
// done. False when a stop was asked for before the end. The engine needs a store. `scorer`: the
// engine's, null where it has none. Throws Error(kInvalidRequest) naming the question, before any
// is measured, when one is longer than the context; what the engine throws for a request that it
// refuses (an unknown policy); Error(kIo) when the KV of a passage cannot be stored; and what
// RunLog throws.
bool run_eval(Engine& engine, Scorer* scorer, const EvalPlan& plan, RunLog& log,
              const EvalHooks& hooks = {});

}  // namespace tessera
