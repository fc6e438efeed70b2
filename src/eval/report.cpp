#include "eval/report.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

#include "base/check.h"
#include "eval/estimates.h"
#include "eval/registry.h"
#include "reuse/policy.h"

namespace tessera {
namespace {

using nlohmann::json;

// By id, so that every policy's values stand in the same order, whatever that of the rows was.
using Questions = std::map<std::string, const Measurement*>;

struct LineKey {
  size_t rank = 0;  // in the registry of policies
  std::string policy;
  double ratio = 0;
  auto operator<=>(const LineKey&) const = default;
};
using Lines = std::map<LineKey, Questions>;

LineKey line_key(const std::string& policy, double ratio) {
  return {policy_rank(policy), policy, ratio};
}

std::map<std::pair<std::string, std::string>, Lines> grouped(
    std::span<const Measurement> measurements) {
  std::map<std::pair<std::string, std::string>, Lines> groups;
  std::map<std::string, Questions> full;  // by task
  for (const Measurement& o : measurements) {
    const RowKey& key = o.key;
    Questions& questions = key.policy == kFullPolicy
                               ? full[key.task]
                               : groups[{key.task, key.anchor}][line_key(key.policy, key.ratio)];
    questions[key.id] = &o;
  }
  for (const auto& [task, questions] : full) {
    const bool is_alone = std::none_of(groups.begin(), groups.end(),
                                       [&](const auto& g) { return g.first.first == task; });
    if (is_alone) groups[{task, kNoAnchor}];
    for (auto& [name, lines] : groups) {
      if (name.first == task) lines[line_key(kFullPolicy, 1.0)] = questions;
    }
  }
  return groups;
}

// `line` less the baseline, over the questions that both have.
void add_differences(Estimator& estimator, const Questions& questions, const Questions& baseline,
                     PolicyLine& line) {
  std::vector<MeasurementPair> pairs;
  for (const auto& [id, measurement] : questions) {
    const auto other = baseline.find(id);
    if (other != baseline.end()) pairs.push_back({measurement, other->second});
  }
  line.n_paired = pairs.size();
  if (!pairs.empty()) line.differences = estimator.of_differences(pairs);
}

PolicyLine line_of(Estimator& estimator, const LineKey& key, const Lines& all,
                   const std::string& baseline) {
  const Questions& questions = all.at(key);
  std::vector<const Measurement*> measurements;
  for (const auto& [id, measurement] : questions) measurements.push_back(measurement);
  PolicyLine out = {key.policy, key.ratio, questions.size(), estimator.of(measurements), {}, 0};
  const auto other = all.find(line_key(baseline, key.ratio));
  if (key.policy != kFullPolicy && key.policy != baseline && other != all.end())
    add_differences(estimator, questions, other->second, out);
  return out;
}

}  // namespace

std::vector<Group> summarize(std::span<const Measurement> measurements,
                             const ReportOptions& options) {
  Estimator estimator(options.n_resamples, options.seed);
  std::vector<Group> out;
  for (const auto& [name, lines] : grouped(measurements)) {
    Group group = {name.first, name.second, {}};
    for (const auto& [key, questions] : lines)
      group.lines.push_back(line_of(estimator, key, lines, options.baseline));
    out.push_back(std::move(group));
  }
  return out;
}

json estimates_json(const std::vector<Estimate>& estimates) {
  json out = json::object();
  for (size_t i = 0; i < estimates.size(); ++i) {
    const Estimate& e = estimates[i];
    if (e.n == 0) continue;
    out[std::string(metrics()[i].name)] = {
        {"value", e.value}, {"low", e.low}, {"high", e.high}, {"n", e.n}};
  }
  return out;
}

size_t policy_rank(std::string_view policy) {
  const std::vector<PolicyInfo> known = policies();
  return static_cast<size_t>(std::ranges::find(known, policy, &PolicyInfo::name) - known.begin());
}

Estimate metric_estimate(const PolicyLine& line, std::string_view metric) {
  const auto all = metrics();
  const auto found = std::ranges::find(all, metric, &Metric::name);
  CHECK(found != all.end());
  return line.metrics[static_cast<size_t>(found - all.begin())];
}

json metrics_json() {
  json out = json::array();
  for (const Metric& metric : metrics()) {
    out.push_back({{"name", metric.name},
                   {"unit", metric.unit},
                   {"better", metric.better == Better::kLower ? "lower" : "higher"},
                   {"statistic", metric.statistic == Statistic::kMean ? "mean" : "median"}});
  }
  return out;
}

json report_json(const std::vector<Group>& groups) {
  json out = json::array();
  for (const Group& group : groups) {
    json lines = json::array();
    for (const PolicyLine& line : group.lines) {
      lines.push_back({{"policy", line.policy},
                       {"ratio", line.ratio},
                       {"n", line.n},
                       {"metrics", estimates_json(line.metrics)},
                       {"n_paired", line.n_paired},
                       {"differences", estimates_json(line.differences)}});
    }
    out.push_back({{"task", group.task}, {"anchor", group.anchor}, {"policies", lines}});
  }
  return out;
}

}  // namespace tessera
