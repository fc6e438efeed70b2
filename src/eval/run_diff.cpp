#include "eval/run_diff.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "eval/estimates.h"
#include "eval/report.h"

namespace tessera {
namespace {

using nlohmann::json;

using LineKey = std::tuple<std::string, std::string, size_t, std::string, double>;
using Pairs = std::map<LineKey, std::vector<MeasurementPair>>;

LineKey line_key(const RowKey& key) {
  return {key.task, key.anchor, policy_rank(key.policy), key.policy, key.ratio};
}

double change_of(const DiffQuestion& q) { return std::abs(q.second_kl - q.first_kl); }

// What a start says of itself but for its date, which always differs.
json last_session(const RunFile& file) {
  json out = file.sessions.back();
  out.erase("started");
  return out;
}

std::vector<DiffQuestion> most_changed(const Pairs& pairs, size_t n_most) {
  std::vector<DiffQuestion> out;
  for (const auto& [key, questions] : pairs) {
    for (const auto& [second, first] : questions) {
      DiffQuestion q = {second->key, first->kl, second->kl, first->answer, second->answer};
      if (change_of(q) > 0) out.push_back(std::move(q));
    }
  }
  // Of equal changes in the order of their rows.
  std::ranges::sort(out, [](const DiffQuestion& a, const DiffQuestion& b) {
    const double change = change_of(a), other = change_of(b);
    return std::tie(other, a.key) < std::tie(change, b.key);
  });
  if (out.size() > n_most) out.resize(n_most);
  return out;
}

json differences_json(const std::vector<ConfigDifference>& differences) {
  json out = json::array();
  for (const ConfigDifference& d : differences)
    out.push_back({{"name", d.name}, {"first", d.first}, {"second", d.second}});
  return out;
}

json questions_json(const std::vector<DiffQuestion>& questions) {
  json out = json::array();
  for (const DiffQuestion& q : questions) {
    out.push_back({{"task", q.key.task},
                   {"id", q.key.id},
                   {"anchor", q.key.anchor},
                   {"policy", q.key.policy},
                   {"ratio", q.key.ratio},
                   {"kl", {q.first_kl, q.second_kl}},
                   {"answers", {q.first_answer, q.second_answer}}});
  }
  return out;
}

}  // namespace

RunDiff diff_runs(const RunFile& first, const RunFile& second, const DiffOptions& options) {
  RunDiff out;
  Pairs pairs;
  for (const auto& [key, theirs] : first.rows) {
    const auto found = second.rows.find(key);
    if (found == second.rows.end()) {
      ++out.n_first_only;
      continue;
    }
    const Measurement& ours = found->second;
    if (ours.inputs.sample != theirs.inputs.sample) {
      ++out.n_changed;
      continue;
    }
    ++out.n_paired;
    if (ours.inputs.scorer != theirs.inputs.scorer) ++out.n_other_scorer;
    pairs[line_key(key)].push_back({&ours, &theirs});
  }
  out.n_second_only = second.rows.size() - out.n_paired - out.n_changed;
  Estimator estimator(options.n_resamples, options.seed);
  for (const auto& [key, questions] : pairs) {
    const auto& [task, anchor, rank, policy, ratio] = key;
    out.lines.push_back(
        {task, anchor, policy, ratio, questions.size(), estimator.of_differences(questions)});
  }
  out.questions = most_changed(pairs, options.n_questions);
  out.config = config_differences(first.config, second.config);
  out.session = config_differences(last_session(first), last_session(second));
  return out;
}

json diff_json(const RunDiff& diff) {
  json lines = json::array();
  for (const DiffLine& line : diff.lines) {
    lines.push_back({{"task", line.task},
                     {"anchor", line.anchor},
                     {"policy", line.policy},
                     {"ratio", line.ratio},
                     {"n", line.n},
                     {"differences", estimates_json(line.differences)}});
  }
  return {{"rows",
           {{"paired", diff.n_paired},
            {"first_only", diff.n_first_only},
            {"second_only", diff.n_second_only},
            {"question_changed", diff.n_changed},
            {"other_scorer", diff.n_other_scorer}}},
          {"config", differences_json(diff.config)},
          {"session", differences_json(diff.session)},
          {"lines", std::move(lines)},
          {"most_changed", questions_json(diff.questions)}};
}

}  // namespace tessera
