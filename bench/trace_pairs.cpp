#include "bench/trace_pairs.h"

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

PairSide side_of(std::string_view config, TraceRows rows) {
  return {std::string(config), mean_of(rows, [](const TraceRow& r) { return r.f1; }),
          mean_of(rows, [](const TraceRow& r) { return r.kl; })};
}

PairFigures figures_of(const TraceTable& table, const Pair& pair, const Resamples& resamples) {
  const std::vector<TraceRow>& a = *find_rows(table, pair.slower);
  const std::vector<TraceRow>& b = *find_rows(table, pair.sooner);
  PairFigures out;
  out.slower = side_of(pair.slower, a);
  out.sooner = side_of(pair.sooner, b);
  out.ratio = ratio_of_means(a, b, resamples);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double ratio = a[i].ttft_ms / b[i].ttft_ms;
    sum += ratio;
    out.greatest_ratio = std::max(out.greatest_ratio, ratio);
  }
  out.mean_of_ratios = sum / static_cast<double>(a.size());
  out.paper_mean = pair.target;
  return out;
}

TraceTable of_source(const TraceTable& table, const std::string& source) {
  TraceTable out = {table.configs, table.rows};
  for (std::vector<TraceRow>& rows : out.rows)
    std::erase_if(rows, [&](const TraceRow& row) { return row.source != source; });
  return out;
}

}  // namespace

std::optional<double> ttft_ratio(const TraceTable& table, std::string_view slower,
                                 std::string_view sooner) {
  const std::vector<TraceRow>* a = find_rows(table, slower);
  const std::vector<TraceRow>* b = find_rows(table, sooner);
  if (a == nullptr || b == nullptr) return std::nullopt;
  return mean_ttft(*a) / mean_ttft(*b);
}

std::vector<PairFigures> pair_figures(const TraceTable& table, const Resamples& resamples) {
  std::vector<PairFigures> out;
  for (const Pair& pair : pairs_of(table)) out.push_back(figures_of(table, pair, resamples));
  return out;
}

std::vector<ModelledPair> modelled_pairs(const TraceTable& table) {
  std::vector<ModelledPair> out;
  for (const Pair& pair : pairs_of(table)) {
    if (const std::optional<double> ratio = ttft_ratio(table, pair.slower, pair.sooner))
      out.push_back({std::string(pair.slower), std::string(pair.sooner), *ratio});
  }
  return out;
}

std::vector<F1Difference> f1_differences(const TraceTable& table, const Resamples& resamples,
                                         bool has_target) {
  constexpr std::string_view kSuffix = "+aca";
  std::vector<F1Difference> out;
  for (const std::string& config : table.configs) {
    if (!config.ends_with(kSuffix)) continue;
    const std::string fixed = config.substr(0, config.size() - kSuffix.size());
    const std::vector<TraceRow>* all = find_rows(table, fixed);
    if (all == nullptr) continue;
    const std::vector<TraceRow>& own = *find_rows(table, config);
    std::vector<double> differences;
    for (size_t i = 0; i < own.size(); ++i) differences.push_back(own[i].f1 - (*all)[i].f1);
    std::optional<double> low_target;
    if (has_target && own.size() >= kQualityRequests) low_target = kF1Loss;
    out.push_back({config, fixed, estimate(differences, Statistic::kMean, resamples), low_target});
  }
  return out;
}

std::vector<SourceFigures> source_figures(const TraceTable& table) {
  std::set<std::string> sources;
  for (const TraceRow& row : table.rows.front()) sources.insert(row.source);
  if (sources.size() < 2) return {};
  std::vector<SourceFigures> out;
  for (const std::string& source : sources) {
    const TraceTable own = of_source(table, source);
    SourceFigures& figures = out.emplace_back();
    figures.name = std::filesystem::path(source).stem().string();
    figures.n_requests = own.rows.front().size();
    for (size_t i = 0; i < own.configs.size(); ++i) {
      SourceConfig& c = figures.configs.emplace_back();
      c.config = own.configs[i];
      c.n_seen = mean_of(own.rows[i], [](const TraceRow& r) { return r.n_seen; });
      c.context = context_figures(own.rows[i]);
      const bool is_baseline =
          std::find(std::begin(kBaselines), std::end(kBaselines), c.config) != std::end(kBaselines);
      if (!is_baseline) c.cacheblend_ratio = ttft_ratio(own, "cacheblend", c.config);
    }
  }
  return out;
}

}  // namespace tessera
