#pragma once
// What can be evaluated: tasks, which give questions, and metrics, which turn what was measured
// into a number. Both are tables in registry.cpp, and --help, the report and the tests follow them.
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "eval/measurement.h"
#include "eval/sample.h"
#include "eval/statistics.h"

namespace tessera {

struct Task {
  std::string_view name;
  std::string_view summary;    // one line for --help
  std::string_view file_stem;  // its questions are in STEM.SPLIT.jsonl of the data folder
  // Throws as read_qa_file does.
  std::vector<Sample> (*read)(const std::filesystem::path& file, const ReadLimits& limits);
};

std::vector<Task> tasks();
// Throws Error(kInvalidRequest) that lists the known names and the nearest of them.
Task find_task(std::string_view name);

enum class Better { kLower, kHigher };

struct Metric {
  std::string_view name;   // in JSON
  std::string_view title;  // of its column
  std::string_view unit;
  Better better = Better::kLower;
  Statistic statistic = Statistic::kMean;  // over questions
  int decimals = 3;
  bool is_in_table = true;  // JSON has all of them
  double (*value)(const Measurement& measurement) = nullptr;
};

std::span<const Metric> metrics();

}  // namespace tessera
