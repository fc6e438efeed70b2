#pragma once
// A run's file, read: docs/EVAL.md describes it. Pure but for read_run_file(); thread-safe.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "eval/measurement.h"

namespace tessera {

struct RunRecords {
  std::vector<nlohmann::json> headers;  // objects, at least one where there are rows
  std::map<RowKey, Measurement> rows;   // of rows with one key the last
  size_t n_bytes = 0;                   // of whole lines; behind them a line was cut off
};

// Calls `refuse`, which must throw, with what is wrong: "is no file of an eval run", "line 3 - is
// no row of an eval run".
RunRecords parse_run(std::string_view text,
                     const std::function<void(const std::string& why)>& refuse);

struct RunFile {
  std::string name;                      // the path as it was given
  nlohmann::json config;                 // an object: what every row of the file shares
  std::vector<nlohmann::json> sessions;  // objects, one for each start that added rows
  std::map<RowKey, Measurement> rows;    // at least one
};

// A last line that was cut off is left out, and the file stays as it is. Throws Error(kNotFound)
// where it cannot be read, and Error(kInvalidRequest) where it is no file of a run, has no rows or
// those of several configs.
RunFile read_run_file(const std::filesystem::path& path);

// Of the intervals, as the config says; `otherwise` where it does not.
uint64_t seed_of(const RunFile& file, uint64_t otherwise);

// What two configs differ in.
struct ConfigDifference {
  std::string name;
  std::string first, second;  // as JSON; "none" where it has no such value
};
std::vector<ConfigDifference> config_differences(const nlohmann::json& first,
                                                 const nlohmann::json& second);

}  // namespace tessera
