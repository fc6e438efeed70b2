#pragma once
// Results of an evaluation for a terminal. What comes from a file cannot move the cursor. Pure;
// thread-safe.
#include <string>

#include "eval/report.h"
#include "eval/run_diff.h"

namespace tessera {

// The title of a group and its table, behind an empty line.
std::string group_text(const Group& group, const std::string& baseline);

// Who stands on the group's frontier, a line.
std::string frontier_text(const Group& group);

// What differs between the configs, the counts of rows, a table per task and anchor, and the
// questions that changed most with both answers.
std::string diff_text(const RunDiff& diff);

}  // namespace tessera
