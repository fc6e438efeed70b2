#pragma once
// The tables of a report as CSV (RFC 4180), for other programs: full precision, one value a column.
// Pure; thread-safe.
#include <string>
#include <vector>

#include "eval/report.h"
#include "eval/report_charts.h"

namespace tessera {

// One line, ended by CR LF. Cells with a comma, a quote or a line break are quoted.
std::string csv_line(const std::vector<std::string>& cells);

// A line per policy, ratio and metric, with the value, its interval and, where there is one, the
// difference to the baseline.
std::string group_csv(const Group& group);
// A line per point.
std::string frontier_csv(const Group& group);

}  // namespace tessera
