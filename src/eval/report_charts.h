#pragma once
// What a group of a report shows as figures, and who stands on the frontier of closeness and speed.
// Pure; thread-safe.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/chart.h"
#include "eval/report.h"

namespace tessera {

// A policy at a ratio between the two things that count.
struct FrontierPoint {
  std::string policy;
  double ratio = 0;
  double ttft_ratio = 0;  // median of full / policy
  Estimate kl;
  // No other point is as close and as fast and better in one of the two.
  bool is_on = false;
};

// Full prefill first, whose KL is 0 and ratio 1 by definition, then in the order of the lines.
std::vector<FrontierPoint> frontier_points(const Group& group);
// Who stands on the frontier, as a sentence.
std::string frontier_sentence(const std::vector<FrontierPoint>& points);
nlohmann::json frontier_json(const std::vector<FrontierPoint>& points);

struct Figure {
  std::string name;  // of its file, without an ending
  ChartPanel panel;
  std::string caption;
};

// Those that have something to show: the frontier, KL against the ratio where some policy was
// measured at several, TTFT and rows.
std::vector<Figure> report_figures(const Group& group);

}  // namespace tessera
