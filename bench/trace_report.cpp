#include "bench/trace_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "engine/answer_json.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

constexpr size_t kTailRequests = 100;     // fewer have no 99th percentile to speak of
constexpr size_t kSteadyWindow = 200;     // requests at each end
constexpr size_t kSteadyRequests = 1000;  // fewer may not have come to rest
constexpr double kSteadyPoints = 2;       // of hits, that the end may have less

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

TtftFigures ttft_figures(TraceRows rows) {
  std::vector<double> ttft = values_of(rows, [](const TraceRow& r) { return r.ttft_ms; });
  TtftFigures out;
  out.mean = mean(ttft);
  std::sort(ttft.begin(), ttft.end());
  out.p50 = quantile(ttft, 0.5);
  out.p90 = quantile(ttft, 0.9);
  if (ttft.size() >= kTailRequests) out.p99 = quantile(ttft, 0.99);
  return out;
}

double mean_seen(TraceRows rows) {
  return mean_of(rows, [](const TraceRow& r) { return r.n_seen; });
}

// A value of adaptive context, 0 where a request had none.
double mean_of_reports(TraceRows rows, double (*value)(const AdaptiveReport&)) {
  return mean_of(rows, [value](const TraceRow& r) { return r.adaptive ? value(*r.adaptive) : 0; });
}

uint32_t greatest_depth(TraceRows rows) {
  uint32_t depth = 0;
  for (const TraceRow& row : rows) {
    for (const SegmentReport& s : row.segments) depth = std::max(depth, s.approximation_depth);
  }
  return depth;
}

std::vector<GenerationFigures> generation_figures(TraceRows rows, size_t n_lists) {
  std::vector<GenerationFigures> out;
  for (size_t begin = 0; begin + n_lists <= rows.size(); begin += n_lists) {
    const TraceRows own = rows.subspan(begin, n_lists);
    out.push_back({mean_of(own, [](const TraceRow& r) { return r.kl_seen; }),
                   share_of_match(own, Match::kSoft), greatest_depth(own)});
  }
  return out;
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

ordered_json record_of(const TraceRow& row) {
  ordered_json segments = ordered_json::array();
  for (const SegmentReport& s : row.segments) segments.emplace_back(to_json(s));
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
          {"answer_ms", row.answer_ms},
          {"publish_ms", row.publish_ms},
          {"is_published", row.is_published},
          {"f1", row.f1},
          {"exact_match", row.exact_match},
          {"kl", row.kl},
          {"top1", row.top1},
          {"kl_seen", row.kl_seen},
          {"passages_given", row.n_given},
          {"passages_seen", row.n_seen},
          {"adaptive", row.adaptive ? ordered_json(to_json(*row.adaptive)) : ordered_json()},
          {"segments", std::move(segments)},
          {"sinks", std::move(sinks)},
          {"answer", row.answer}};
}

MatchShares match_shares(TraceRows rows) {
  return {{"hard", share_of_match(rows, Match::kExact)},
          {"soft", share_of_match(rows, Match::kSoft)},
          {"independent", share_of_match(rows, Match::kIndependent)},
          {"miss", share_of_match(rows, Match::kMiss)}};
}

double rows_share(TraceRows rows) {
  return share_of(
      rows, [](const TraceRow& r) { return r.rows; }, [](const TraceRow& r) { return r.n_full; });
}

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
  return {mean_ttft(slower) / mean_ttft(sooner), quantile(ratios, 0.025), quantile(ratios, 0.975),
          slower.size()};
}

std::optional<ContextFigures> context_figures(TraceRows rows) {
  if (std::ranges::none_of(rows, [](const TraceRow& r) { return r.adaptive.has_value(); }))
    return std::nullopt;
  ContextFigures out;
  for (const TraceRow& row : rows) out.seen_shares[row.n_seen] += 1;
  for (auto& [n_seen, share] : out.seen_shares) share /= static_cast<double>(rows.size());
  const double seen = mean_seen(rows);
  out.seen_deviation = std::sqrt(
      mean_of(rows, [seen](const TraceRow& r) { return (r.n_seen - seen) * (r.n_seen - seen); }));
  out.confident_share =
      mean_of_reports(rows, [](const AdaptiveReport& a) { return a.is_confident ? 1.0 : 0.0; });
  out.n_rounds = mean_of_reports(
      rows, [](const AdaptiveReport& a) { return static_cast<double>(a.rounds.size()); });
  out.break_even_rounds =
      mean_of_reports(rows, [](const AdaptiveReport& a) -> double { return a.break_even_rounds; });
  out.repeated_rows_share = share_of(
      rows, [](const TraceRow& r) { return r.adaptive ? r.adaptive->repeated_rows : 0; },
      [](const TraceRow& r) { return r.n_full; });
  return out;
}

std::vector<ConfigFigures> config_figures(const TraceTable& table, const Resamples& resamples) {
  CHECK(!table.configs.empty() && !table.rows.front().empty());
  std::vector<ConfigFigures> out;
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const TraceRows rows = table.rows[i];
    const auto quality = [&](const RowValue& value) {
      return estimate(values_of(rows, value), Statistic::kMean, resamples);
    };
    ConfigFigures& c = out.emplace_back();
    c.config = table.configs[i];
    c.matches = match_shares(rows);
    c.recomputed_tokens = mean_of(rows, [](const TraceRow& r) { return r.account.recomputed; });
    c.rows_share = rows_share(rows);
    c.ttft = ttft_figures(rows);
    c.full_ratio = ratio_of_means(table.rows.front(), rows, resamples);
    c.publish_ms = mean_of(rows, [](const TraceRow& r) { return r.publish_ms; });
    c.n_unpublished = static_cast<size_t>(
        std::ranges::count_if(rows, [](const TraceRow& r) { return !r.is_published; }));
    c.f1 = quality([](const TraceRow& r) { return r.f1; });
    c.exact_match = quality([](const TraceRow& r) { return r.exact_match; });
    c.kl = quality([](const TraceRow& r) { return r.kl; });
    c.kl_seen = quality([](const TraceRow& r) { return r.kl_seen; });
    c.n_seen = mean_seen(rows);
    c.context = context_figures(rows);
  }
  return out;
}

std::vector<SteadyFigures> steady_figures(const TraceTable& table) {
  std::vector<SteadyFigures> out;
  for (size_t i = 0; i < table.configs.size(); ++i) {
    const TraceRows rows = table.rows[i];
    if (table.configs[i] == "full" || rows.size() < 2) continue;
    SteadyFigures& s = out.emplace_back();
    s.config = table.configs[i];
    s.window = std::min(kSteadyWindow, rows.size() / 2);
    const TraceRows first = rows.first(s.window), last = rows.last(s.window);
    s.first = match_shares(first);
    s.last = match_shares(last);
    s.found_change =
        100 * (share_of_match(first, Match::kMiss) - share_of_match(last, Match::kMiss));
    if (rows.size() >= kSteadyRequests) s.floor = -kSteadyPoints;
  }
  return out;
}

std::vector<LineageFigures> lineage_figures(const TraceTable& table, size_t n_lists,
                                            const std::set<std::string>& bounded) {
  CHECK(n_lists > 0);
  std::vector<LineageFigures> out;
  for (size_t i = 0; i < table.configs.size(); ++i) {
    if (table.configs[i] == "full") continue;
    LineageFigures& c = out.emplace_back();
    c.config = table.configs[i];
    c.generations = generation_figures(table.rows[i], n_lists);
    // Growth from nothing has no factor.
    if (c.generations.size() > 1 && c.generations.front().kl > 0)
      c.kl_growth = c.generations.back().kl / c.generations.front().kl;
    c.depth = greatest_depth(table.rows[i]);
    c.is_bounded = bounded.contains(c.config);
  }
  return out;
}

void check_modelled(TraceRows real, TraceRows modelled, ModelledFigures& out) {
  out.n_checked = std::min(real.size(), modelled.size());
  out.real = match_shares(real.first(out.n_checked));
  out.modelled = match_shares(modelled.first(out.n_checked));
  for (size_t i = 0; i < out.real.size(); ++i) {
    const double difference = std::abs(out.real[i].share - out.modelled[i].share);
    out.greatest_difference = std::max(out.greatest_difference, 100 * difference);
  }
}

}  // namespace tessera
