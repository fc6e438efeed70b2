#pragma once
// Two runs held against each other, question by question. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/run_file.h"
#include "eval/statistics.h"

namespace tessera {

struct DiffOptions {
  size_t n_resamples = 2000;  // positive
  uint64_t seed = 0;
  size_t n_questions = 10;  // of those that changed most
};

// One policy at one ratio over the questions that both runs have.
struct DiffLine {
  std::string task, anchor, policy;
  double ratio = 0;
  size_t n = 0;                       // questions, at least one
  std::vector<Estimate> differences;  // the second run less the first, in the order of metrics()
};

// One question under one policy.
struct DiffQuestion {
  RowKey key;
  double first_kl = 0, second_kl = 0;
  std::string first_answer, second_answer;
};

struct RunDiff {
  size_t n_paired = 0;  // rows
  size_t n_first_only = 0, n_second_only = 0;
  size_t n_changed = 0;                 // rows of questions that are others now: in no line
  size_t n_other_scorer = 0;            // paired rows which two scorers rated
  std::vector<DiffLine> lines;          // by task, anchor, then as in policies(), then by ratio
  std::vector<DiffQuestion> questions;  // those whose KL changed most, first; none without change
  std::vector<ConfigDifference> config;
  std::vector<ConfigDifference> session;  // of the last starts; without when that was
};

// Rows are paired by task, id, anchor, policy and ratio.
RunDiff diff_runs(const RunFile& first, const RunFile& second, const DiffOptions& options);

nlohmann::json diff_json(const RunDiff& diff);

}  // namespace tessera
