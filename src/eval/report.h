#pragma once
// The rows of a run, summed up: per task and anchor one line per policy and ratio, with bootstrap
// intervals over questions and paired differences to a baseline. Pure; the order of the rows does
// not matter. Thread-safe.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/measurement.h"
#include "eval/statistics.h"

namespace tessera {

struct ReportOptions {
  std::string baseline;       // policy that others are held against
  size_t n_resamples = 2000;  // positive
  uint64_t seed = 0;
};

struct PolicyLine {
  std::string policy;
  double ratio = 0;
  size_t n = 0;  // questions
  // In the order of metrics(), each over the questions that have a value; those of none have n 0.
  std::vector<Estimate> metrics;
  // This policy less the baseline at the same ratio, over those of the n_paired questions that both
  // have where both have a value; empty for the baseline itself, for full prefill and where there
  // is no such question.
  std::vector<Estimate> differences;
  size_t n_paired = 0;
};

struct Group {
  std::string task;
  std::string anchor;             // kNoAnchor where there are rows of full prefill only
  std::vector<PolicyLine> lines;  // in the order of policies(), then by ratio
};

// Full prefill reads no chunk, so its rows stand in the group of every anchor. By task, then
// anchor.
std::vector<Group> summarize(std::span<const Measurement> measurements,
                             const ReportOptions& options);

// The policy's place in policies(), behind all of them for one that is unknown.
size_t policy_rank(std::string_view policy);

// What the line says of the metric of that name, which must be a known one; n 0: nothing.
Estimate metric_estimate(const PolicyLine& line, std::string_view metric);

// The metrics themselves: name, unit, which way is better, statistic.
nlohmann::json metrics_json();

// By name, in the order of metrics(); those that no question has a value of are left out.
nlohmann::json estimates_json(const std::vector<Estimate>& estimates);

// Metrics that no question has a value of are left out.
nlohmann::json report_json(const std::vector<Group>& groups);

}  // namespace tessera
