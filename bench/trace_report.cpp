#include "bench/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

constexpr size_t kTailRequests = 100;     // fewer have no 99th percentile to speak of
constexpr size_t kSteadyWindow = 200;     // requests at each end
constexpr size_t kSteadyRequests = 1000;  // fewer may not have come to rest
constexpr double kSteadyPoints = 2;       // the ends may differ by
constexpr double kGenerationRatio = 1.2;  // KL of the last generation to that of the first

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of all requests together: long prompts weigh more.
double share_of(TraceRows rows, const RowValue& part, const RowValue& whole) {
  double parts = 0, wholes = 0;
  for (const TraceRow& row : rows) {
    parts += part(row);
    wholes += whole(row);
  }
  return wholes > 0 ? parts / wholes : 0;
}

double tokens_of_chunks(const TraceRow& row, std::optional<Match> match) {
  double tokens = 0;
  for (const SegmentReport& s : row.segments) {
    if (s.kind == SegmentKind::kChunk && (!match || s.match == *match)) tokens += s.n_tokens;
  }
  return tokens;
}

double share_of_match(TraceRows rows, Match match) {
  return share_of(
      rows, [match](const TraceRow& r) { return tokens_of_chunks(r, match); },
      [](const TraceRow& r) { return tokens_of_chunks(r, std::nullopt); });
}

double row_share(TraceRows rows) {
  return 100 * share_of(
                   rows, [](const TraceRow& r) { return r.rows; },
                   [](const TraceRow& r) { return r.n_full; });
}

void add_tiers(TraceRows rows, const std::string& name, ResultList& results) {
  for (const TierShare& tier : tier_shares(rows))
    results.add(fmt::format("{} {}, share of chunk tokens", name, tier.name), 100 * tier.share,
                "%");
}

void add_rows(TraceRows rows, const std::string& name, ResultList& results) {
  results.add(name + " tokens recomputed, mean",
              mean_of(rows, [](const TraceRow& r) { return r.account.recomputed; }), "tokens");
  results.add(
      name +
          " rows computed, the probe's and repeated ones included, share of the whole prompt of "
          "all passages",
      row_share(rows), "%");
}

void add_times(TraceRows rows, const std::string& name, ResultList& results) {
  std::vector<double> ttft = values_of(rows, [](const TraceRow& r) { return r.ttft_ms; });
  results.add(name + " ttft mean", mean(ttft), "ms");
  std::sort(ttft.begin(), ttft.end());
  for (const int percent : {50, 90, 99}) {
    if (percent == 99 && ttft.size() < kTailRequests) continue;
    results.add(fmt::format("{} ttft p{}", name, percent), quantile(ttft, percent / 100.0), "ms");
  }
}

void add_publishing(TraceRows rows, const std::string& name, ResultList& results) {
  results.add(name + " storing after the answer, mean",
              mean_of(rows, [](const TraceRow& r) { return r.publish_ms; }), "ms");
  results.add(name + " requests whose chunks were not all stored",
              static_cast<double>(
                  std::ranges::count_if(rows, [](const TraceRow& r) { return !r.is_published; })),
              "requests");
}

bool is_adaptive(TraceRows rows) {
  return std::ranges::any_of(rows, [](const TraceRow& r) { return r.adaptive.has_value(); });
}

void add_quality(TraceRows rows, const std::string& name, const Resamples& resamples,
                 ResultList& results) {
  const auto add = [&](std::string_view what, const RowValue& value, const std::string& unit) {
    results.add_interval(fmt::format("{} {}", name, what),
                         estimate(values_of(rows, value), Statistic::kMean, resamples), unit);
  };
  add("F1", [](const TraceRow& r) { return r.f1; }, "share");
  add("EM", [](const TraceRow& r) { return r.exact_match; }, "share");
  const RowValue kl = [](const TraceRow& r) { return r.kl; };
  if (!is_adaptive(rows)) return add("mean KL to full", kl, "nats");
  add("mean KL to full over all passages", kl, "nats");
  add(
      "mean KL to full over the passages seen", [](const TraceRow& r) { return r.kl_seen; },
      "nats");
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

uint32_t greatest_depth(TraceRows rows) {
  uint32_t depth = 0;
  for (const TraceRow& row : rows) {
    for (const SegmentReport& s : row.segments) depth = std::max(depth, s.approximation_depth);
  }
  return depth;
}

}  // namespace

std::vector<double> values_of(TraceRows rows, const RowValue& value) {
  std::vector<double> out;
  out.reserve(rows.size());
  std::transform(rows.begin(), rows.end(), std::back_inserter(out), value);
  return out;
}

double mean_of(TraceRows rows, const RowValue& value) { return mean(values_of(rows, value)); }

double mean_ttft(TraceRows rows) {
  return mean_of(rows, [](const TraceRow& r) { return r.ttft_ms; });
}

void ResultList::add(std::string_view name, double value, std::string unit,
                     std::optional<double> target, bool at_most) {
  results_.push_back(
      {fmt::format("{} {}", heading_, name), value, std::move(unit), target, at_most});
}

void ResultList::add_interval(const std::string& name, const Estimate& estimate,
                              const std::string& unit, const IntervalTargets& targets) {
  add(name, estimate.value, unit, targets.value);
  add(name + ", low end of 95%", estimate.low, unit, targets.low);
  add(name + ", high end of 95%", estimate.high, unit);
}

ordered_json record_of(const TraceRow& row) {
  ordered_json segments = ordered_json::array();
  for (const SegmentReport& s : row.segments) segments.push_back(json_of(s));
  ordered_json sinks = ordered_json::array();
  for (const ReadSink& s : row.sinks) sinks.push_back({{"chunk", s.chunk}, {"sink", s.sink}});
  return {{"request", row.request},
          {"top_k", row.top_k},
          {"question", row.question},
          {"source", row.source},
          {"config", row.config},
          {"prompt_tokens", row.account.total()},
          {"prompt_tokens_of_full", row.n_full},
          {"exact", row.account.exact},
          {"soft", row.account.soft},
          {"independent", row.account.independent},
          {"recomputed", row.account.recomputed},
          {"fresh", row.account.fresh},
          {"rows", row.rows},
          {"ttft_ms", row.ttft_ms},
          {"publish_ms", row.publish_ms},
          {"is_published", row.is_published},
          {"f1", row.f1},
          {"exact_match", row.exact_match},
          {"kl", row.kl},
          {"kl_seen", row.kl_seen},
          {"passages_given", row.n_given},
          {"passages_seen", row.n_seen},
          {"adaptive", row.adaptive ? json_of(*row.adaptive) : ordered_json()},
          {"segments", std::move(segments)},
          {"sinks", std::move(sinks)},
          {"answer", row.answer}};
}

std::vector<TierShare> tier_shares(TraceRows rows) {
  return {{"hard", share_of_match(rows, Match::kExact)},
          {"soft", share_of_match(rows, Match::kSoft)},
          {"independent", share_of_match(rows, Match::kIndependent)},
          {"miss", share_of_match(rows, Match::kMiss)}};
}

void summarise_context(TraceRows rows, const std::string& name, ResultList& results) {
  if (!is_adaptive(rows)) return;
  std::map<int32_t, size_t> counts;
  for (const TraceRow& row : rows) ++counts[row.n_seen];
  const auto n = static_cast<double>(rows.size());
  for (const auto& [n_seen, count] : counts) {
    results.add(fmt::format("{} saw {} passages, share of requests", name, n_seen),
                100 * static_cast<double>(count) / n, "%");
  }
  const double seen = mean_of(rows, [](const TraceRow& r) { return r.n_seen; });
  const double variance =
      mean_of(rows, [seen](const TraceRow& r) { return (r.n_seen - seen) * (r.n_seen - seen); });
  results.add(name + " passages seen, mean", seen, "passages");
  results.add(name + " passages seen, standard deviation", std::sqrt(variance), "passages");
  const auto add = [&](std::string_view what, double (*value)(const AdaptiveReport&), double scale,
                       const std::string& unit) {
    const auto of_row = [value](const TraceRow& r) { return r.adaptive ? value(*r.adaptive) : 0; };
    results.add(fmt::format("{} {}", name, what), scale * mean_of(rows, of_row), unit);
  };
  add(
      "stopped because it was sure, share of requests",
      [](const AdaptiveReport& a) { return a.is_confident ? 1.0 : 0.0; }, 100, "%");
  add(
      "rounds, mean", [](const AdaptiveReport& a) { return static_cast<double>(a.rounds.size()); },
      1, "rounds");
  add(
      "rounds at which it breaks even, mean",
      [](const AdaptiveReport& a) { return a.break_even_rounds; }, 1, "rounds");
  results.add(
      name + " repeated rows of the question, share of the whole prompt",
      100 * share_of(
                rows, [](const TraceRow& r) { return r.adaptive ? r.adaptive->repeated_rows : 0; },
                [](const TraceRow& r) { return r.n_full; }),
      "%");
}

void summarise_model(const TraceTable& table, ResultList& results) {
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const TraceRows rows = table.rows[i];
    const std::string& name = table.configs[i];
    add_tiers(rows, name, results);
    results.add(name + " rows computed, without a probe's, share of the whole prompt",
                row_share(rows), "%");
    results.add(name + " ttft mean", mean_ttft(rows), "ms");
  }
}

void summarise(const TraceTable& table, const Resamples& resamples, ResultList& results) {
  CHECK(!table.configs.empty() && !table.rows.front().empty());
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const TraceRows rows = table.rows[i];
    const std::string& name = table.configs[i];
    add_tiers(rows, name, results);
    add_rows(rows, name, results);
    add_times(rows, name, results);
    add_publishing(rows, name, results);
    add_quality(rows, name, resamples, results);
    summarise_context(rows, name, results);
  }
}

void summarise_steady_state(const TraceTable& table, ResultList& results) {
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const TraceRows rows = table.rows[i];
    const std::string& name = table.configs[i];
    if (name == "full" || rows.size() < 2) continue;
    const size_t window = std::min(kSteadyWindow, rows.size() / 2);
    const TraceRows first = rows.first(window), last = rows.last(window);
    add_tiers(first, fmt::format("{} first {} requests", name, window), results);
    add_tiers(last, fmt::format("{} last {} requests", name, window), results);
    const bool has_target = rows.size() >= kSteadyRequests && window == kSteadyWindow;
    results.add(
        name + " found, the last requests against the first, difference either way",
        100 * std::abs(share_of_match(last, Match::kMiss) - share_of_match(first, Match::kMiss)),
        "points", has_target ? std::optional(kSteadyPoints) : std::nullopt, true);
  }
}

void summarise_generations(const TraceTable& table, size_t n_lists, ResultList& results) {
  CHECK(n_lists > 0);
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const std::string& name = table.configs[i];
    if (name == "full") continue;
    const TraceRows rows = table.rows[i];
    std::vector<double> kl;
    for (size_t begin = 0; begin + n_lists <= rows.size(); begin += n_lists) {
      const TraceRows own = rows.subspan(begin, n_lists);
      kl.push_back(mean_of(own, [](const TraceRow& r) { return r.kl; }));
      const std::string generation = fmt::format("{} generation {}", name, kl.size());
      results.add(generation + " mean KL to full", kl.back(), "nats");
      results.add(generation + " soft, share of chunk tokens",
                  100 * share_of_match(own, Match::kSoft), "%");
      results.add(generation + " greatest depth of approximation that was loaded",
                  greatest_depth(own), "");
    }
    // What the paper does is shown beside it, without a promise.
    const bool is_bounded = name == "adacache";
    if (kl.size() > 1) {
      results.add(fmt::format("{} KL of generation {} / generation 1", name, kl.size()),
                  kl.front() > 0 ? kl.back() / kl.front() : 0, "x",
                  is_bounded ? std::optional(kGenerationRatio) : std::nullopt, true);
    }
    results.add(name + " greatest depth of approximation that was loaded", greatest_depth(rows), "",
                is_bounded ? std::optional(1.0) : std::nullopt, true);
  }
}

}  // namespace tessera
