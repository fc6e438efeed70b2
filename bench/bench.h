#pragma once
// Measurements of `tessera bench`: ratios inside one run, both sides interleaved, medians.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace tessera {

struct BenchResult {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> target;
  bool at_most = false;  // the target is a ceiling
  bool ok() const { return !target || (at_most ? value <= *target : value >= *target); }
};

struct BenchOptions {
  std::filesystem::path model_path;
  std::string model_name;
  std::filesystem::path scorer_path;  // ttft; empty: policies that need one are left out
  LoadOptions load;
  int32_t n_threads = 0;
  int32_t rounds = 5;
  int32_t n_tokens = 0;          // prefill: rows; decode: steps
  std::string text;              // source of prompts and passages
  std::filesystem::path kv_dir;  // ttft: disk tier
  double ratio = 0.15;
  std::function<void(std::string_view)> note;  // progress for people
  std::stop_token stop;
};

// Prefill of n_tokens rows, and steps of one token, against libllama: on the file's own types with
// libllama's better setting of use_extra_bufts, and as both are used by default.
std::vector<BenchResult> bench_prefill(const BenchOptions& options);
std::vector<BenchResult> bench_decode(const BenchOptions& options);

// Time to first token of the policies that recompute against full prefill at about 1.4k and 4k
// prompt tokens, warm store; load and rotate; indexing; peak memory.
std::vector<BenchResult> bench_ttft(const BenchOptions& options);

}  // namespace tessera
