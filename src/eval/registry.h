#pragma once
// What can be evaluated: tasks, which give questions, and metrics, which turn what was measured
// into a number. Both are tables in registry.cpp, and --help, the report and the tests follow them.
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/measurement.h"
#include "eval/sample.h"
#include "eval/statistics.h"

namespace tessera {

// Whether a task's questions come with passages.
enum class Passages {
  kGiven,
  kRetrieved,   // they have none: `eval --retrieve` finds some
  kOfQuestion,  // what is asked is of its own passages alone, and no split keeps questions apart:
                // it is measured where it is named
};

struct Task {
  std::string_view name;
  std::string_view summary;  // one line for --help
  std::string_view folder;   // of the data folder: "qa"
  std::string_view file;     // in that folder, "SPLIT" for the split: "squad.SPLIT.jsonl"
  // Throws as read_qa_file does.
  std::vector<Sample> (*read)(const std::filesystem::path& file, const ReadLimits& limits);
  Passages passages = Passages::kGiven;
};

std::vector<Task> tasks();
// Throws Error(kInvalidRequest) that lists the known names and the nearest of them.
Task find_task(std::string_view name);

// The name of the task's file for `split`.
std::string task_file_name(const Task& task, std::string_view split);
// Where that file is: in `data` itself, else in the task's folder below it. Where it is in neither,
// the path at which a user would look for it.
std::filesystem::path task_file(const Task& task, const std::filesystem::path& data,
                                std::string_view split);

enum class Better { kLower, kHigher };

struct Metric {
  std::string_view name;   // in JSON
  std::string_view title;  // of its column
  std::string_view unit;
  Better better = Better::kLower;
  Statistic statistic = Statistic::kMean;  // over the questions that have a value
  int decimals = 3;
  bool is_in_table = true;  // JSON has all of them
  // Nothing where the metric does not apply to the row.
  std::optional<double> (*value)(const Measurement& measurement) = nullptr;
};

std::span<const Metric> metrics();

}  // namespace tessera
