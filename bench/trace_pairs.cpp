#include "bench/trace_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace tessera {
namespace {

constexpr size_t kQualityRequests = 50;  // fewer cannot bound a difference of F1
constexpr double kF1Loss = -0.05;        // the low end of its interval may be

// Ratios that AdaCache's paper reports, as means over its models and data sets.
struct Pair {
  std::string_view slower;
  std::string_view sooner;
  std::optional<double> target;
};
constexpr Pair kPairs[] = {
    {"full", "adacache+aca", 3.12},           {"prefix", "adacache+aca", 2.69},
    {"cacheblend", "adacache+aca", 1.32},     {"prefix", "prefix+aca", 1.65},
    {"cacheblend", "cacheblend+aca", 1.22},   {"prefix+aca", "adacache+aca", 1.76},
    {"cacheblend+aca", "adacache+aca", 1.23},
};
// What every other configuration is held against.
constexpr std::string_view kBaselines[] = {"full", "prefix", "cacheblend"};

// The same at fewest and at most passages: its figure of top-k.
struct PaperRange {
  double top_2;
  double top_8;
};
constexpr PaperRange kPaperAdaptive = {2.93, 4.67};
constexpr PaperRange kPaperPrefix = {1.76, 1.13};

// Not where it was not run.
const std::vector<TraceRow>* find_rows(const TraceTable& table, std::string_view config) {
  const auto found = std::find(table.configs.begin(), table.configs.end(), config);
  if (found == table.configs.end()) return nullptr;
  return &table.rows[static_cast<size_t>(found - table.configs.begin())];
}

std::optional<double> target_of(std::string_view slower, std::string_view sooner) {
  for (const Pair& pair : kPairs) {
    if (pair.slower == slower && pair.sooner == sooner) return pair.target;
  }
  return std::nullopt;
}

bool has_both(const TraceTable& table, const Pair& pair) {
  return pair.slower != pair.sooner && find_rows(table, pair.slower) != nullptr &&
         find_rows(table, pair.sooner) != nullptr;
}

// Each baseline with all others, then those of the paper that are none of these.
std::vector<Pair> pairs_of(const TraceTable& table) {
  std::vector<Pair> out;
  const auto place = [](std::string_view name) {
    return std::find(std::begin(kBaselines), std::end(kBaselines), name);
  };
  for (const std::string_view baseline : kBaselines) {
    for (const std::string& config : table.configs) {
      if (place(config) > place(baseline))
        out.push_back({baseline, config, target_of(baseline, config)});
    }
  }
  for (const Pair& pair : kPairs) {
    if (place(pair.slower) == std::end(kBaselines)) out.push_back(pair);
  }
  std::erase_if(out, [&](const Pair& pair) { return !has_both(table, pair); });
  return out;
}

// Request by request: each resample takes the same ones of both.
Estimate ratio_of_means(TraceRows slower, TraceRows sooner, const Resamples& resamples) {
  std::vector<double> ratios(resamples.size());
  for (size_t i = 0; i < ratios.size(); ++i) {
    double a = 0, b = 0;
    for (const uint32_t pick : resamples[i]) {
      a += slower[pick].ttft_ms;
      b += sooner[pick].ttft_ms;
    }
    ratios[i] = a / b;
  }
  std::sort(ratios.begin(), ratios.end());
  return {mean_ttft(slower) / mean_ttft(sooner), quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

void add_pair(const TraceTable& table, const Pair& pair, const Resamples& resamples,
              ResultList& results) {
  const std::vector<TraceRow>& a = *find_rows(table, pair.slower);
  const std::vector<TraceRow>& b = *find_rows(table, pair.sooner);
  const std::string name = fmt::format("ttft {} / {}", pair.slower, pair.sooner);
  results.add_interval(name + ", ratio of means", ratio_of_means(a, b, resamples), "x",
                       {pair.target, std::nullopt});
  double sum = 0, greatest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double ratio = a[i].ttft_ms / b[i].ttft_ms;
    sum += ratio;
    greatest = std::max(greatest, ratio);
  }
  results.add(name + ", mean of the ratios of each request", sum / static_cast<double>(a.size()),
              "x");
  results.add(name + ", greatest single measurement", greatest, "x");
  for (const std::vector<TraceRow>* side : {&a, &b}) {
    const std::string of = side == &a ? std::string(pair.slower) : std::string(pair.sooner);
    results.add(fmt::format("{}, F1 of {}", name, of),
                mean_of(*side, [](const TraceRow& r) { return r.f1; }), "share");
    results.add(fmt::format("{}, mean KL to full over all passages of {}", name, of),
                mean_of(*side, [](const TraceRow& r) { return r.kl; }), "nats");
  }
}

// Whether fewer passages cost quality: question by question against the same policy with all.
void add_f1_differences(const TraceTable& table, const Resamples& resamples, bool has_targets,
                        ResultList& results) {
  constexpr std::string_view kSuffix = "+aca";
  for (const std::string& config : table.configs) {
    if (!config.ends_with(kSuffix)) continue;
    const std::string fixed = config.substr(0, config.size() - kSuffix.size());
    const std::vector<TraceRow>* all = find_rows(table, fixed);
    if (all == nullptr) continue;
    const std::vector<TraceRow>& own = *find_rows(table, config);
    std::vector<double> differences;
    for (size_t i = 0; i < own.size(); ++i) differences.push_back(own[i].f1 - (*all)[i].f1);
    IntervalTargets targets;
    if (has_targets && own.size() >= kQualityRequests) targets.low = kF1Loss;
    results.add_interval(fmt::format("F1 {} - {}", config, fixed),
                         estimate(differences, Statistic::kMean, resamples), "share", targets);
  }
}

TraceTable of_source(const TraceTable& table, const std::string& source) {
  TraceTable out = {table.configs, table.rows};
  for (std::vector<TraceRow>& rows : out.rows)
    std::erase_if(rows, [&](const TraceRow& row) { return row.source != source; });
  return out;
}

void add_range(std::span<const TopKRatios> ratios, std::optional<double> TopKRatios::*value,
               const PaperRange& paper, const std::string& name, ResultList& results) {
  const std::optional<double> first = ratios.front().*value, last = ratios.back().*value;
  if (!first || !last) return;
  for (const TopKRatios& r : ratios) {
    if (r.*value) results.add(fmt::format("{}, top-{}", name, r.top_k), *(r.*value), "x");
  }
  results.add(name + ", the paper's at top-2", paper.top_2, "x");
  results.add(name + ", the paper's at top-8", paper.top_8, "x");
  results.add(fmt::format("{}, top-{} over top-{}: above 1 the lead grows", name,
                          ratios.back().top_k, ratios.front().top_k),
              *last / *first, "x");
}

}  // namespace

std::optional<double> ttft_ratio(const TraceTable& table, std::string_view slower,
                                 std::string_view sooner) {
  const std::vector<TraceRow>* a = find_rows(table, slower);
  const std::vector<TraceRow>* b = find_rows(table, sooner);
  if (a == nullptr || b == nullptr) return std::nullopt;
  return mean_ttft(*a) / mean_ttft(*b);
}

void summarise_pairs(const TraceTable& table, const Resamples& resamples, bool has_targets,
                     ResultList& results) {
  for (Pair pair : pairs_of(table)) {
    if (!has_targets) pair.target.reset();
    add_pair(table, pair, resamples, results);
  }
  add_f1_differences(table, resamples, has_targets, results);
}

void summarise_model_pairs(const TraceTable& table, ResultList& results) {
  for (const Pair& pair : pairs_of(table)) {
    if (const std::optional<double> ratio = ttft_ratio(table, pair.slower, pair.sooner))
      results.add(fmt::format("ttft {} / {}, ratio of means", pair.slower, pair.sooner), *ratio,
                  "x");
  }
}

void summarise_sources(const TraceTable& table, ResultList& results) {
  std::set<std::string> sources;
  for (const TraceRow& row : table.rows.front()) sources.insert(row.source);
  if (sources.size() < 2) return;
  for (const std::string& source : sources) {
    const TraceTable own = of_source(table, source);
    const std::string stem = std::filesystem::path(source).stem().string();
    results.add(stem + ": requests", static_cast<double>(own.rows.front().size()), "requests");
    for (size_t i = 0; i < own.configs.size(); ++i) {
      const std::string& config = own.configs[i];
      summarise_context(own.rows[i], fmt::format("{}: {}", stem, config), results);
      const bool is_baseline =
          std::find(std::begin(kBaselines), std::end(kBaselines), config) != std::end(kBaselines);
      const std::optional<double> gain = ttft_ratio(own, "cacheblend", config);
      if (gain && !is_baseline)
        results.add(fmt::format("{}: ttft cacheblend / {}, ratio of means", stem, config), *gain,
                    "x");
    }
  }
}

void summarise_top_k(std::vector<TopKRatios> ratios, ResultList& results) {
  if (ratios.size() < 2) return;
  std::ranges::sort(ratios, {}, &TopKRatios::top_k);
  add_range(ratios, &TopKRatios::adaptive, kPaperAdaptive,
            "ttft full / adacache+aca, ratio of means", results);
  add_range(ratios, &TopKRatios::prefix, kPaperPrefix, "ttft full / prefix, ratio of means",
            results);
}

}  // namespace tessera
