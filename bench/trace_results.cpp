#include "bench/trace_results.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {
namespace {

struct IntervalTargets {
  std::optional<double> value;  // at least
  std::optional<double> low;    // of the interval: at least
};

// Results under one heading.
class ResultList {
 public:
  explicit ResultList(std::string heading) : heading_(std::move(heading)) {}

  void add(std::string_view name, double value, std::string unit,
           std::optional<double> target = std::nullopt, bool at_most = false) {
    results_.push_back(
        {fmt::format("{} {}", heading_, name), value, std::move(unit), target, at_most});
  }

  // The value, then the ends of its interval.
  void add_interval(const std::string& name, const Estimate& estimate, const std::string& unit,
                    const IntervalTargets& targets = {}) {
    add(name, estimate.value, unit, targets.value);
    add(name + ", low end of 95%", estimate.low, unit, targets.low);
    add(name + ", high end of 95%", estimate.high, unit);
  }

  std::vector<BenchResult> take() { return std::move(results_); }

 private:
  std::string heading_;
  std::vector<BenchResult> results_;
};

void add_stream(const StreamFigures& stream, ResultList& results) {
  results.add("requests", static_cast<double>(stream.n_requests), "requests");
  results.add("questions asked before", 100 * stream.repeated_questions, "%");
  results.add("lists of passages retrieved before", 100 * stream.repeated_lists, "%");
  results.add("lists reordered to be novel", static_cast<double>(stream.n_shuffled), "lists");
  results.add("places taken by the most used tenth of the passages", 100 * stream.top_tenth_share,
              "%");
}

void add_stores(const std::vector<StoreFigures>& stores, ResultList& results) {
  for (const StoreFigures& s : stores) {
    results.add(s.config + " distinct chunks over all tiers at the end",
                static_cast<double>(s.n_chunks), "chunks");
    results.add(s.config + " bytes of these at the end", static_cast<double>(s.bytes) / 1e6, "MB");
    results.add(s.config + " bytes that all tiers hold at the end",
                static_cast<double>(s.held_bytes) / 1e6, "MB");
    results.add(s.config + " variants at the end", static_cast<double>(s.n_variants), "variants");
  }
}

void add_matches(const MatchShares& matches, const std::string& name, ResultList& results) {
  for (const MatchShare& match : matches)
    results.add(fmt::format("{} {}, share of chunk tokens", name, match.name), 100 * match.share,
                "%");
}

void add_ttft(const TtftFigures& ttft, const std::string& name, ResultList& results) {
  results.add(name + " ttft mean", ttft.mean, "ms");
  results.add(name + " ttft p50", ttft.p50, "ms");
  results.add(name + " ttft p90", ttft.p90, "ms");
  if (ttft.p99) results.add(name + " ttft p99", *ttft.p99, "ms");
}

void add_quality(const ConfigFigures& c, ResultList& results) {
  results.add_interval(c.config + " F1", c.f1, "share");
  results.add_interval(c.config + " EM", c.exact_match, "share");
  if (!c.context) return results.add_interval(c.config + " mean KL to full", c.kl, "nats");
  results.add_interval(c.config + " mean KL to full over all passages", c.kl, "nats");
  results.add_interval(c.config + " mean KL to full over the passages seen", c.kl_seen, "nats");
}

void add_context(const ContextFigures& context, double n_seen, const std::string& name,
                 ResultList& results) {
  for (const auto& [passages, share] : context.seen_shares)
    results.add(fmt::format("{} saw {} passages, share of requests", name, passages), 100 * share,
                "%");
  results.add(name + " passages seen, mean", n_seen, "passages");
  results.add(name + " passages seen, standard deviation", context.seen_deviation, "passages");
  results.add(name + " stopped because it was sure, share of requests",
              100 * context.confident_share, "%");
  results.add(name + " rounds, mean", context.n_rounds, "rounds");
  results.add(name + " rounds at which it breaks even, mean", context.break_even_rounds, "rounds");
  results.add(name + " repeated rows of the question, share of the whole prompt",
              100 * context.repeated_rows_share, "%");
}

void add_config(const ConfigFigures& c, ResultList& results) {
  const std::string& name = c.config;
  add_matches(c.matches, name, results);
  results.add(name + " tokens recomputed, mean", c.recomputed_tokens, "tokens");
  results.add(
      name +
          " rows computed, the probe's and repeated ones included, share of the whole prompt of "
          "all passages",
      100 * c.rows_share, "%");
  add_ttft(c.ttft, name, results);
  results.add(name + " storing after the answer, mean", c.publish_ms, "ms");
  results.add(name + " requests whose chunks were not all stored",
              static_cast<double>(c.n_unpublished), "requests");
  add_quality(c, results);
  if (c.context) add_context(*c.context, c.n_seen, name, results);
}

void add_pair(const PairFigures& pair, bool is_of_paper, ResultList& results) {
  const std::string name = fmt::format("ttft {} / {}", pair.slower.config, pair.sooner.config);
  results.add_interval(name + ", ratio of means", pair.ratio, "x",
                       {is_of_paper ? pair.paper_mean : std::nullopt, std::nullopt});
  results.add(name + ", mean of the ratios of each request", pair.mean_of_ratios, "x");
  results.add(name + ", greatest single measurement", pair.greatest_ratio, "x");
  for (const PairSide& side : {pair.slower, pair.sooner}) {
    results.add(fmt::format("{}, F1 of {}", name, side.config), side.f1, "share");
    results.add(fmt::format("{}, mean KL to full over all passages of {}", name, side.config),
                side.kl, "nats");
  }
}

void add_source(const SourceFigures& source, ResultList& results) {
  results.add(source.name + ": requests", static_cast<double>(source.n_requests), "requests");
  for (const SourceConfig& c : source.configs) {
    if (c.context)
      add_context(*c.context, c.n_seen, fmt::format("{}: {}", source.name, c.config), results);
    if (c.cacheblend_ratio)
      results.add(fmt::format("{}: ttft cacheblend / {}, ratio of means", source.name, c.config),
                  *c.cacheblend_ratio, "x");
  }
}

void add_steady(const std::vector<SteadyFigures>& steady, ResultList& results) {
  for (const SteadyFigures& s : steady) {
    add_matches(s.first, fmt::format("{} first {} requests", s.config, s.window), results);
    add_matches(s.last, fmt::format("{} last {} requests", s.config, s.window), results);
    results.add(s.config + " found, the last requests less the first", s.found_change, "points",
                s.floor);
  }
}

void add_check(const ModelledFigures& c, ResultList& results) {
  for (size_t i = 0; i < c.real.size(); ++i) {
    const std::string share = fmt::format("{} {}, share of chunk tokens, first {} requests",
                                          c.config, c.real[i].name, c.n_checked);
    results.add(share + ", real run", 100 * c.real[i].share, "%");
    results.add(share + ", stand-in", 100 * c.modelled[i].share, "%");
  }
  results.add(c.config + " stand-in against the real run, greatest difference",
              c.greatest_difference, "points", kModelledDifference, true);
}

void add_lineage(const LineageFigures& c, ResultList& results) {
  for (size_t g = 0; g < c.generations.size(); ++g) {
    const std::string name = fmt::format("{} generation {}", c.config, g + 1);
    results.add(name + " mean KL to full", c.generations[g].kl, "nats");
    results.add(name + " soft, share of chunk tokens", 100 * c.generations[g].soft_share, "%");
    results.add(name + " greatest depth of approximation that was loaded", c.generations[g].depth,
                "");
  }
  // What the paper does is shown beside it, without a promise.
  const auto ceiling = [&](double value) {
    return c.is_bounded ? std::optional(value) : std::nullopt;
  };
  if (c.kl_growth)
    results.add(
        fmt::format("{} KL of generation {} / generation 1", c.config, c.generations.size()),
        *c.kl_growth, "x", ceiling(kGrowthCeiling), true);
  results.add(c.config + " greatest depth of approximation that was loaded", c.depth, "",
              ceiling(kDepthCeiling), true);
}

std::vector<BenchResult> list_of(const RunReport& r) {
  ResultList results(fmt::format("{} trace top-{}", r.model, r.top_k));
  add_stream(r.stream, results);
  add_stores(r.stores, results);
  results.add("requests computed", static_cast<double>(r.n_requests), "requests");
  results.add("passages given, mean", r.n_given, "passages");
  for (const ConfigFigures& c : r.configs) add_config(c, results);
  for (const PairFigures& pair : r.pairs) add_pair(pair, r.is_of_paper, results);
  for (const F1Difference& d : r.f1_differences)
    results.add_interval(fmt::format("F1 {} - {}", d.adaptive, d.fixed), d.difference, "share",
                         {std::nullopt, d.low_target});
  for (const SourceFigures& source : r.sources) add_source(source, results);
  add_steady(r.steady, results);
  return results.take();
}

std::vector<BenchResult> list_of(const LongReport& r) {
  ResultList results(
      fmt::format("{} trace top-{} stand-in blobs, compute modelled:", r.model, r.top_k));
  results.add("requests", static_cast<double>(r.n_requests), "requests");
  for (const ModelledFigures& c : r.configs)
    results.add(c.config + " compute modelled at", c.row_ms, "ms a row");
  for (const ModelledFigures& c : r.configs) add_check(c, results);
  for (const ModelledFigures& c : r.configs) {
    add_matches(c.matches, c.config, results);
    results.add(c.config + " rows computed, without a probe's, share of the whole prompt",
                100 * c.rows_share, "%");
    results.add(c.config + " ttft mean", c.ttft_mean, "ms");
  }
  for (const ModelledPair& pair : r.pairs)
    results.add(fmt::format("ttft {} / {}, ratio of means", pair.slower, pair.sooner), pair.ratio,
                "x");
  add_steady(r.steady, results);
  return results.take();
}

std::vector<BenchResult> list_of(const GenerationsReport& r) {
  ResultList results(fmt::format("{} trace generations top-{}", r.model, r.top_k));
  for (const LineageFigures& c : r.configs) add_lineage(c, results);
  add_stores(r.stores, results);
  return results.take();
}

void add_range(const TopKReport& report, std::optional<double> TopKRatios::*value,
               const PaperRange& paper, const std::string& name, ResultList& results) {
  const TopKRatios& fewest = report.ratios.front();
  const TopKRatios& most = report.ratios.back();
  const std::optional<double> first = fewest.*value, last = most.*value;
  if (!first || !last) return;
  for (const TopKRatios& r : report.ratios) {
    const std::optional<double> ratio = r.*value;
    if (ratio) results.add(fmt::format("{}, top-{}", name, r.top_k), *ratio, "x");
  }
  results.add(name + ", the paper's at top-2", paper.top_2, "x");
  results.add(name + ", the paper's at top-8", paper.top_8, "x");
  results.add(
      fmt::format("{}, top-{} over top-{}: above 1 the lead grows", name, most.top_k, fewest.top_k),
      *last / *first, "x");
}

std::vector<BenchResult> list_of(const TopKReport& r) {
  ResultList results(fmt::format("{} trace", r.model));
  if (r.ratios.empty()) return {};
  add_range(r, &TopKRatios::adaptive, kPaperAdaptive, "ttft full / adacache+aca, ratio of means",
            results);
  add_range(r, &TopKRatios::prefix, kPaperPrefix, "ttft full / prefix, ratio of means", results);
  return results.take();
}

}  // namespace

std::vector<BenchResult> results_of(const TraceReport& report) {
  return std::visit([](const auto& r) { return list_of(r); }, report);
}

}  // namespace tessera
