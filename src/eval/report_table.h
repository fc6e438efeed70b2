#pragma once
// The table of a group as people read it, the same on a terminal and on a page. Pure; thread-safe.
#include <string>
#include <vector>

#include "eval/report.h"

namespace tessera {

struct ReportCell {
  std::string value;     // empty: there is none
  std::string interval;  // "[0.1, 0.2]", or empty
  std::string note;      // "n 5": over how many questions, where not over all of the line

  // The parts that there are, with a blank between them.
  std::string text() const;
};

// The first column is text, the others are numbers.
struct ReportTable {
  std::vector<std::string> columns;
  std::vector<std::vector<ReportCell>> rows;  // [lines of the group, columns]
};

// An estimate to so many decimals; empty without a value.
ReportCell estimate_cell(const Estimate& estimate, int decimals, size_t n_of_line);

// Policy, ratio, n, the metrics that some line has a value of, and the difference in KL to the
// baseline.
ReportTable report_table(const Group& group, const std::string& baseline);

}  // namespace tessera
