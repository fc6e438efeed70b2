#include "eval/report.h"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <utility>

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
  const std::vector<PolicyInfo> known = policies();
  const auto at = std::find_if(known.begin(), known.end(),
                               [&](const PolicyInfo& info) { return info.name == policy; });
  return {static_cast<size_t>(at - known.begin()), policy, ratio};
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

class Summary {
 public:
  explicit Summary(const ReportOptions& options) : options_(options) {}

  PolicyLine line(const LineKey& key, const Questions& questions, const Lines& all) {
    PolicyLine out;
    out.policy = key.policy;
    out.ratio = key.ratio;
    out.n = questions.size();
    for (const Metric& metric : metrics()) {
      std::vector<double> values;
      for (const auto& [id, measurement] : questions) {
        if (const std::optional<double> value = metric.value(*measurement))
          values.push_back(*value);
      }
      out.metrics.push_back(estimate_of(values, metric.statistic));
    }
    const auto baseline = all.find(line_key(options_.baseline, key.ratio));
    if (key.policy != kFullPolicy && key.policy != options_.baseline && baseline != all.end())
      add_differences(questions, baseline->second, out);
    return out;
  }

 private:
  void add_differences(const Questions& questions, const Questions& baseline, PolicyLine& out) {
    std::vector<std::pair<const Measurement*, const Measurement*>> pairs;
    for (const auto& [id, measurement] : questions) {
      const auto other = baseline.find(id);
      if (other != baseline.end()) pairs.emplace_back(measurement, other->second);
    }
    out.n_paired = pairs.size();
    if (pairs.empty()) return;
    for (const Metric& metric : metrics()) {
      std::vector<double> values;
      for (const auto& [ours, theirs] : pairs) {
        const std::optional<double> a = metric.value(*ours), b = metric.value(*theirs);
        if (a && b) values.push_back(*a - *b);
      }
      out.differences.push_back(estimate_of(values, metric.statistic));
    }
  }

  Estimate estimate_of(const std::vector<double>& values, Statistic statistic) {
    if (values.empty()) return {};
    const size_t n = values.size();
    const auto drawn = drawn_.try_emplace(n, n, options_.n_resamples, options_.seed).first;
    return estimate(values, statistic, drawn->second);
  }

  const ReportOptions& options_;
  std::map<size_t, Resamples> drawn_;  // by number of questions
};

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

}  // namespace

std::vector<Group> summarize(std::span<const Measurement> measurements,
                             const ReportOptions& options) {
  Summary summary(options);
  std::vector<Group> out;
  for (const auto& [name, lines] : grouped(measurements)) {
    Group group = {name.first, name.second, {}};
    for (const auto& [key, questions] : lines)
      group.lines.push_back(summary.line(key, questions, lines));
    out.push_back(std::move(group));
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
