#pragma once
// Runs as one HTML page that needs nothing else: no network, no script. All that comes from files
// is escaped. Pure; thread-safe.
#include <span>
#include <string>
#include <vector>

#include "eval/report.h"
#include "eval/run_file.h"

namespace tessera {

// Below so many questions a difference is a lead, no result.
inline constexpr size_t kFewestQuestions = 30;

struct ReportedRun {
  RunFile file;
  std::string baseline;
  std::vector<Group> groups;
};

// The rows of the file summed up as `eval` does: with the seed of its config.
ReportedRun report_run(RunFile file, const ReportOptions& options);

std::string report_page(std::span<const ReportedRun> runs);

}  // namespace tessera
