#include "bench/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "eval/statistics.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;
using Rows = std::span<const TraceRow>;
using Value = std::function<double(const TraceRow&)>;

constexpr size_t kResamples = 1000;
constexpr size_t kSteadyWindow = 200;     // requests at each end
constexpr double kSteadyPoints = 2;       // they may differ by
constexpr double kGenerationRatio = 1.2;  // KL of the last generation to that of the first

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> values_of(Rows rows, const Value& value) {
  std::vector<double> out;
  out.reserve(rows.size());
  std::transform(rows.begin(), rows.end(), std::back_inserter(out), value);
  return out;
}

double mean_of(Rows rows, const Value& value) { return mean(values_of(rows, value)); }

// Of all requests together: long prompts weigh more.
double share_of(Rows rows, const Value& part, const Value& whole) {
  double parts = 0, wholes = 0;
  for (const TraceRow& row : rows) {
    parts += part(row);
    wholes += whole(row);
  }
  return wholes > 0 ? parts / wholes : 0;
}

// Ratios that AdaCache's paper reports, as means over its models and data sets.
struct Pair {
  std::string_view slower;
  std::string_view sooner;
  double target;
};
constexpr Pair kPairs[] = {
    {"full", "adacache+aca", 3.12},           {"prefix", "adacache+aca", 2.69},
    {"cacheblend", "adacache+aca", 1.32},     {"prefix", "prefix+aca", 1.65},
    {"cacheblend", "cacheblend+aca", 1.22},   {"prefix+aca", "adacache+aca", 1.76},
    {"cacheblend+aca", "adacache+aca", 1.23},
};
// What every other configuration is held against.
constexpr std::string_view kBaselines[] = {"full", "prefix", "cacheblend"};

void add_shares(Rows rows, const std::string& name, ResultList& results) {
  for (const TierShare& tier : tier_shares(rows))
    results.add(fmt::format("{} {}", name, tier.name), 100 * tier.share, "%");
  results.add(name + " rows computed, share of the whole prompt",
              100 * share_of(
                        rows, [](const TraceRow& r) { return r.rows; },
                        [](const TraceRow& r) { return r.n_full; }),
              "%");
}

void add_times(Rows rows, const std::string& name, ResultList& results) {
  std::vector<double> ttft = values_of(rows, [](const TraceRow& r) { return r.ttft_ms; });
  results.add(name + " ttft mean", mean(ttft), "ms");
  std::sort(ttft.begin(), ttft.end());
  for (const int percent : {50, 90, 99})
    results.add(fmt::format("{} ttft p{}", name, percent), quantile(ttft, percent / 100.0), "ms");
}

void add_publishing(Rows rows, const std::string& name, ResultList& results) {
  results.add(name + " storing after the answer, mean",
              mean_of(rows, [](const TraceRow& r) { return r.publish_ms; }), "ms");
  results.add(name + " requests whose chunks were not all stored",
              static_cast<double>(
                  std::ranges::count_if(rows, [](const TraceRow& r) { return !r.is_published; })),
              "requests");
}

void add_quality(Rows rows, const std::string& name, ResultList& results) {
  results.add(name + " F1", mean_of(rows, [](const TraceRow& r) { return r.f1; }), "share");
  results.add(name + " EM", mean_of(rows, [](const TraceRow& r) { return r.exact_match; }),
              "share");
  results.add(name + " mean KL to full", mean_of(rows, [](const TraceRow& r) { return r.kl; }),
              "nats");
}

void add_context(Rows rows, const std::string& name, ResultList& results) {
  std::map<int32_t, size_t> counts;
  std::vector<double> break_even;
  size_t n_confident = 0;
  for (const TraceRow& row : rows) {
    if (!row.adaptive) continue;
    ++counts[row.n_seen];
    break_even.push_back(row.adaptive->break_even_rounds);
    n_confident += row.adaptive->is_confident ? 1 : 0;
  }
  if (break_even.empty()) return;
  const auto n = static_cast<double>(break_even.size());
  for (const auto& [n_seen, count] : counts) {
    results.add(fmt::format("{} saw {} passages, share of requests", name, n_seen),
                100 * static_cast<double>(count) / n, "%");
  }
  results.add(name + " passages seen, mean",
              mean_of(rows, [](const TraceRow& r) { return r.n_seen; }), "passages");
  results.add(name + " stopped because it was sure, share of requests",
              100 * static_cast<double>(n_confident) / n, "%");
  const Value n_rounds = [](const TraceRow& r) {
    return r.adaptive ? static_cast<double>(r.adaptive->rounds.size()) : 0.0;
  };
  results.add(name + " rounds, mean", mean_of(rows, n_rounds), "rounds");
  results.add(name + " rounds at which it breaks even, mean", mean(break_even), "rounds");
  results.add(
      name + " repeated rows of the question, share of the whole prompt",
      100 * share_of(
                rows, [](const TraceRow& r) { return r.adaptive ? r.adaptive->repeated_rows : 0; },
                [](const TraceRow& r) { return r.n_full; }),
      "%");
}

const std::vector<TraceRow>* find_rows(const TraceTable& table, std::string_view config) {
  const auto found = std::find(table.configs.begin(), table.configs.end(), config);
  if (found == table.configs.end()) return nullptr;
  return &table.rows[static_cast<size_t>(found - table.configs.begin())];
}

// 0: the paper reports none.
double target_of(std::string_view slower, std::string_view sooner) {
  for (const Pair& pair : kPairs) {
    if (pair.slower == slower && pair.sooner == sooner) return pair.target;
  }
  return 0;
}

enum class Targets { kNone, kOfPaper };

void add_pair(const TraceTable& table, const Pair& pair, Targets targets, ResultList& results) {
  const std::vector<TraceRow>* a = find_rows(table, pair.slower);
  const std::vector<TraceRow>* b = find_rows(table, pair.sooner);
  if (a == nullptr || b == nullptr || a == b) return;
  std::vector<double> ratios;
  for (size_t i = 0; i < a->size(); ++i) ratios.push_back((*a)[i].ttft_ms / (*b)[i].ttft_ms);
  const std::string name = fmt::format("ttft {} / {}", pair.slower, pair.sooner);
  const bool has_target = targets == Targets::kOfPaper && pair.target > 0;
  results.add(name + ", mean", mean(ratios), "x",
              has_target ? std::optional(pair.target) : std::nullopt);
  results.add(name + ", greatest", *std::max_element(ratios.begin(), ratios.end()), "x");
}

// Which pairs: each baseline with all others, then those of the paper that are none of these.
void add_pairs(const TraceTable& table, Targets targets, ResultList& results) {
  for (const std::string_view baseline : kBaselines) {
    for (const std::string& config : table.configs) {
      const bool is_earlier = std::find(std::begin(kBaselines), std::end(kBaselines), config) <
                              std::find(std::begin(kBaselines), std::end(kBaselines), baseline);
      if (is_earlier) continue;
      add_pair(table, {baseline, config, target_of(baseline, config)}, targets, results);
    }
  }
  for (const Pair& pair : kPairs) {
    if (std::find(std::begin(kBaselines), std::end(kBaselines), pair.slower) ==
        std::end(kBaselines))
      add_pair(table, pair, targets, results);
  }
}

// Whether fewer passages cost quality: question by question against the same policy with all.
void add_f1_differences(const TraceTable& table, uint64_t seed, ResultList& results) {
  constexpr std::string_view kSuffix = "+aca";
  for (const std::string& config : table.configs) {
    if (!config.ends_with(kSuffix)) continue;
    const std::string fixed = config.substr(0, config.size() - kSuffix.size());
    const std::vector<TraceRow>* all = find_rows(table, fixed);
    if (all == nullptr) continue;
    const std::vector<TraceRow>& own = *find_rows(table, config);
    std::vector<double> differences;
    for (size_t i = 0; i < own.size(); ++i) differences.push_back(own[i].f1 - (*all)[i].f1);
    const Estimate e =
        estimate(differences, Statistic::kMean, Resamples(differences.size(), kResamples, seed));
    const std::string name = fmt::format("F1 {} - {}", config, fixed);
    results.add(name, e.value, "share");
    results.add(name + ", low end of 95%", e.low, "share");
    results.add(name + ", high end of 95%", e.high, "share", 0.0);
  }
}

ordered_json json_of(const SegmentReport& s) {
  ordered_json out = {
      {"kind", segment_kind_name(s.kind)}, {"tokens", s.n_tokens},
      {"match", match_name(s.match)},      {"tier", s.tier.empty() ? "none" : s.tier},
      {"recomputed", s.recomputed},        {"depth", s.approximation_depth}};
  if (s.match == Match::kSoft) {
    out["matched_predecessor"] = s.matched_predecessor;
    out["matched_sink"] = s.matched_sink;
  }
  return out;
}

ordered_json json_of(const AdaptiveReport& a) {
  ordered_json rounds = ordered_json::array();
  for (const Round& r : a.rounds) {
    rounds.push_back({{"passages", r.n_passages},
                      {"kl", r.certainty.kl},
                      {"entropy", r.certainty.entropy},
                      {"confidence", r.confidence},
                      {"rows", r.rows},
                      {"ms", r.ms}});
  }
  return {{"is_confident", a.is_confident},
          {"repeated_rows", a.repeated_rows},
          {"break_even_rounds", a.break_even_rounds},
          {"rounds", std::move(rounds)}};
}

// The mean of each.
std::vector<double> kl_of_generations(Rows rows, size_t n_generations) {
  const size_t n = rows.size() / n_generations;
  std::vector<double> out;
  out.reserve(n_generations);
  for (size_t g = 0; g < n_generations; ++g)
    out.push_back(mean_of(rows.subspan(g * n, n), [](const TraceRow& r) { return r.kl; }));
  return out;
}

uint32_t greatest_depth(Rows rows) {
  uint32_t depth = 0;
  for (const TraceRow& row : rows) {
    for (const SegmentReport& s : row.segments) depth = std::max(depth, s.approximation_depth);
  }
  return depth;
}

}  // namespace

void ResultList::add(std::string_view name, double value, std::string unit,
                     std::optional<double> target, bool at_most) {
  results_.push_back(
      {fmt::format("{} {}", heading_, name), value, std::move(unit), target, at_most});
}

ordered_json record_of(const TraceRow& row) {
  ordered_json segments = ordered_json::array();
  for (const SegmentReport& s : row.segments) segments.push_back(json_of(s));
  ordered_json sinks = ordered_json::array();
  for (const ReadSink& s : row.sinks) sinks.push_back({{"chunk", s.chunk}, {"sink", s.sink}});
  return {{"request", row.request},
          {"question", row.question},
          {"config", row.config},
          {"prompt_tokens", row.account.total()},
          {"prompt_tokens_of_full", row.n_full},
          {"exact", row.account.exact},
          {"soft", row.account.soft},
          {"independent", row.account.independent},
          {"recomputed", row.account.recomputed},
          {"fresh", row.account.fresh},
          {"chunk_tokens", row.chunk_tokens},
          {"found_tokens", row.found_tokens},
          {"rows", row.rows},
          {"ttft_ms", row.ttft_ms},
          {"publish_ms", row.publish_ms},
          {"is_published", row.is_published},
          {"f1", row.f1},
          {"exact_match", row.exact_match},
          {"kl", row.kl},
          {"passages_given", row.n_given},
          {"passages_seen", row.n_seen},
          {"adaptive", row.adaptive ? json_of(*row.adaptive) : ordered_json()},
          {"segments", std::move(segments)},
          {"sinks", std::move(sinks)},
          {"answer", row.answer}};
}

double found_share(Rows rows) {
  return share_of(
      rows, [](const TraceRow& r) { return r.found_tokens; },
      [](const TraceRow& r) { return r.chunk_tokens; });
}

std::vector<TierShare> tier_shares(Rows rows) {
  struct Part {
    std::string_view name;
    int32_t Account::*tokens;
  };
  constexpr Part kParts[] = {{"hard, share of prompt tokens", &Account::exact},
                             {"soft, share of prompt tokens", &Account::soft},
                             {"independent, share of prompt tokens", &Account::independent},
                             {"recomputed, share of prompt tokens", &Account::recomputed},
                             {"fresh, share of prompt tokens", &Account::fresh}};
  std::vector<TierShare> out;
  for (const Part& part : kParts) {
    const double share = share_of(
        rows, [&part](const TraceRow& r) { return r.account.*part.tokens; },
        [](const TraceRow& r) { return r.account.total(); });
    out.push_back({part.name, share});
  }
  out.push_back({"found, share of chunk tokens", found_share(rows)});
  return out;
}

void summarise_model(const TraceTable& table, ResultList& results) {
  for (size_t i = 0; i < table.configs.size(); ++i) {
    add_shares(table.rows[i], table.configs[i], results);
    add_times(table.rows[i], table.configs[i], results);
  }
  add_pairs(table, Targets::kNone, results);
}

void summarise(const TraceTable& table, uint64_t seed, ResultList& results) {
  CHECK(!table.configs.empty() && !table.rows.front().empty());
  for (size_t i = 0; i < table.configs.size(); ++i) {
    add_shares(table.rows[i], table.configs[i], results);
    add_times(table.rows[i], table.configs[i], results);
    add_publishing(table.rows[i], table.configs[i], results);
    add_quality(table.rows[i], table.configs[i], results);
    add_context(table.rows[i], table.configs[i], results);
  }
  add_pairs(table, Targets::kOfPaper, results);
  add_f1_differences(table, seed, results);
}

void summarise_steady_state(const TraceTable& table, ResultList& results) {
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const Rows rows = table.rows[i];
    if (table.configs[i] == "full" || rows.size() < 2) continue;
    const size_t window = std::min(kSteadyWindow, rows.size() / 2);
    const double first = 100 * found_share(rows.first(window));
    const double last = 100 * found_share(rows.last(window));
    const std::string& name = table.configs[i];
    results.add(
        fmt::format("{} found in the first {} requests, share of chunk tokens", name, window),
        first, "%");
    results.add(fmt::format("{} found in the last {} requests", name, window), last, "%");
    results.add(name + " found less at the end than at the start", first - last, "points",
                kSteadyPoints, true);
  }
}

void summarise_generations(const TraceTable& table, size_t n_generations, ResultList& results) {
  CHECK(n_generations > 0);
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const std::string& name = table.configs[i];
    if (name == "full") continue;
    const Rows rows = table.rows[i];
    const std::vector<double> kl = kl_of_generations(rows, n_generations);
    for (size_t g = 0; g < n_generations; ++g)
      results.add(fmt::format("{} mean KL to full, generation {}", name, g + 1), kl[g], "nats");
    // What the paper does is shown beside it, without a promise.
    const bool is_bounded = name == "adacache";
    results.add(fmt::format("{} KL of generation {} / generation 1", name, n_generations),
                kl.front() > 0 ? kl.back() / kl.front() : 0, "x",
                is_bounded ? std::optional(kGenerationRatio) : std::nullopt, true);
    results.add(name + " greatest depth of approximation that was loaded", greatest_depth(rows), "",
                is_bounded ? std::optional(1.0) : std::nullopt, true);
  }
}

}  // namespace tessera
