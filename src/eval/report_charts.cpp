#include "eval/report_charts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "eval/frontier.h"
#include "eval/registry.h"
#include "reuse/policy.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr double kShift = 5;  // pixels between the marks of policies at one ratio

// One that no registry knows has the defaults.
PolicyInfo info_of(const std::string& policy) {
  const std::vector<PolicyInfo> known = policies();
  const auto at = std::ranges::find(known, policy, &PolicyInfo::name);
  return at == known.end() ? PolicyInfo{} : *at;
}

// A ratio that the policy does not read says nothing.
std::string name_of(const std::string& policy, double ratio) {
  return info_of(policy).reads_ratio ? fmt::format("{} {:.4g}", policy, ratio) : policy;
}

ChartInterval interval_of(const Estimate& e) { return {e.low, e.high}; }

std::string title_of(const Group& group, std::string_view what) {
  return fmt::format("{}, anchor {}: {}", group.task, group.anchor, what);
}

// What each label adds to the one before it on the same line: the policy's name stands at its
// first point.
std::string point_label(const FrontierPoint& point, bool is_first) {
  if (is_first) return name_of(point.policy, point.ratio);
  return info_of(point.policy).reads_ratio ? fmt::format("{:.4g}", point.ratio) : "";
}

std::vector<ChartSeries> frontier_series(const std::vector<FrontierPoint>& points) {
  std::vector<ChartSeries> out;
  for (const FrontierPoint& point : points) {
    const bool is_first = out.empty() || out.back().name != point.policy;
    if (is_first) out.push_back({point.policy, policy_rank(point.policy), true, {}, 0});
    const auto interval =
        point.policy == kFullPolicy ? std::nullopt : std::optional(interval_of(point.kl));
    out.back().points.push_back(
        {point.ttft_ratio, point.kl.value, interval, point_label(point, is_first), point.is_on});
  }
  return out;
}

Figure frontier_figure(const Group& group, const std::vector<FrontierPoint>& points) {
  Figure out;
  out.name = "frontier";
  ChartPanel& panel = out.panel;
  panel.title = title_of(group, "closeness and speed");
  panel.subtitle = "better: to the right (sooner) and down (closer to full prefill)";
  panel.x = {"TTFT ratio, full / policy (median, log scale)", Scale::kLog, 1.0};
  panel.y = {"mean KL to full prefill, nats (log scale)", Scale::kLog, {}};
  panel.series = frontier_series(points);
  out.caption = frontier_sentence(points) +
                " Filled marks are on the frontier, hollow ones are not; bars are 95% intervals of "
                "KL, and numbers are ratios. Full prefill is the origin of both axes: its KL is 0, "
                "which a log scale shows at its floor, and its TTFT ratio is 1.";
  return out;
}

// Policies that were measured at several ratios, in the order of the lines.
std::vector<ChartSeries> ratio_series(const Group& group) {
  std::map<std::string, std::vector<const PolicyLine*>> by_policy;
  std::vector<std::string> order;
  for (const PolicyLine& line : group.lines) {
    if (line.policy == kFullPolicy || metric_estimate(line, "kl").n == 0) continue;
    if (by_policy[line.policy].empty()) order.push_back(line.policy);
    by_policy[line.policy].push_back(&line);
  }
  std::erase_if(order, [&](const std::string& policy) { return by_policy[policy].size() < 2; });
  std::vector<ChartSeries> out;
  for (size_t i = 0; i < order.size(); ++i) {
    const double shift =
        kShift * (static_cast<double>(i) - static_cast<double>(order.size() - 1) / 2);
    ChartSeries series = {order[i], policy_rank(order[i]), true, {}, shift};
    for (const PolicyLine* line : by_policy[order[i]]) {
      const Estimate kl = metric_estimate(*line, "kl");
      series.points.push_back({line->ratio, kl.value, interval_of(kl), "", true});
    }
    series.points.back().label = order[i];
    out.push_back(std::move(series));
  }
  return out;
}

Figure ratio_figure(const Group& group, std::vector<ChartSeries> series) {
  Figure out;
  out.name = "kl-by-ratio";
  ChartPanel& panel = out.panel;
  const auto is_above_zero = [](const PolicyLine& line) { return line.ratio > 0; };
  const bool is_log = std::ranges::all_of(group.lines, is_above_zero);
  panel.title = title_of(group, "distance by ratio");
  panel.subtitle = "lower is closer to full prefill";
  panel.x = {is_log ? "ratio, share of reused tokens that is recomputed (log scale)"
                    : "ratio, share of reused tokens that is recomputed",
             is_log ? Scale::kLog : Scale::kLinear,
             {}};
  panel.y = {"mean KL to full prefill, nats (log scale)", Scale::kLog, {}};
  panel.series = std::move(series);
  out.caption =
      "Bars are 95% intervals. Marks at one ratio are moved apart sideways, so that their bars can "
      "be told apart. A policy that does not read the ratio is the same at each.";
  return out;
}

Figure bar_figure(const Group& group, std::string_view metric, Figure out) {
  for (const PolicyLine& line : group.lines) {
    const Estimate e = metric_estimate(line, metric);
    if (e.n == 0) continue;
    const std::string label = line.policy == kFullPolicy
                                  ? line.policy
                                  : fmt::format("{} {:.4g}", line.policy, line.ratio);
    out.panel.bars.push_back({label, policy_rank(line.policy), e.value, interval_of(e)});
  }
  return out;
}

Figure ttft_figure(const Group& group) {
  Figure out;
  out.name = "ttft";
  out.panel.title = title_of(group, "time to first token");
  out.panel.subtitle = "shorter is better; policy and ratio";
  out.panel.x = {"median TTFT, ms", Scale::kLinear, {}};
  out.caption =
      "Medians over the questions with 95% intervals, of single measurements, of which full "
      "prefill's may come from an earlier run on the same machine.";
  return bar_figure(group, "ttft_ms", std::move(out));
}

Figure rows_figure(const Group& group) {
  Figure out;
  out.name = "rows";
  out.panel.title = title_of(group, "rows computed");
  out.panel.subtitle = "shorter is better; policy and ratio";
  out.panel.x = {"(rows computed + probe rows) / prompt tokens, mean share", Scale::kLinear, {}};
  out.caption =
      "What a policy computes of a prompt, whatever the machine, with 95% intervals; full prefill "
      "computes all of it. Rows of a scorer are in none of the bars.";
  return bar_figure(group, "rows_share", std::move(out));
}

}  // namespace

std::vector<FrontierPoint> frontier_points(const Group& group) {
  std::vector<FrontierPoint> out = {{kFullPolicy, 1, 1, {}, false}};
  std::vector<CostPair> costs = {{-1, 0}};
  for (const PolicyLine& line : group.lines) {
    const Estimate kl = metric_estimate(line, "kl"), speed = metric_estimate(line, "ttft_ratio");
    if (line.policy == kFullPolicy || kl.n == 0 || speed.n == 0) continue;
    out.push_back({line.policy, line.ratio, speed.value, kl, false});
    costs.push_back({-speed.value, kl.value});
  }
  const std::vector<bool> is_on = on_frontier(costs);
  for (size_t i = 0; i < out.size(); ++i) out[i].is_on = is_on[i];
  return out;
}

std::string frontier_sentence(const std::vector<FrontierPoint>& points) {
  std::vector<std::string> names;
  for (const FrontierPoint& point : points) {
    if (!point.is_on) continue;
    std::string name = name_of(point.policy, point.ratio);
    if (info_of(point.policy).is_control) name += " (a control)";
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return fmt::format(
      "On the frontier: {}. Nothing that was measured is as close and as fast, and better in one "
      "of the two.",
      fmt::join(names, ", "));
}

json frontier_json(const std::vector<FrontierPoint>& points) {
  json out = json::array();
  for (const FrontierPoint& point : points) {
    out.push_back(
        {{"policy", point.policy},
         {"ratio", point.ratio},
         {"ttft_ratio", point.ttft_ratio},
         {"kl", {{"value", point.kl.value}, {"low", point.kl.low}, {"high", point.kl.high}}},
         {"on_frontier", point.is_on}});
  }
  return out;
}

std::vector<Figure> report_figures(const Group& group) {
  std::vector<Figure> out;
  const std::vector<FrontierPoint> points = frontier_points(group);
  const bool has_policies = points.size() > 1;
  if (has_policies) out.push_back(frontier_figure(group, points));
  std::vector<ChartSeries> series = ratio_series(group);
  if (!series.empty()) out.push_back(ratio_figure(group, std::move(series)));
  if (!has_policies) return out;
  out.push_back(ttft_figure(group));
  out.push_back(rows_figure(group));
  return out;
}

}  // namespace tessera
