#include "tessera/bench_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/model.h"
#include "tessera/build_info.h"
#include "tessera/format.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr size_t kLineWidth = 120;
constexpr size_t kVerdictRequests = 20;  // fewer say nothing of a mean
constexpr auto kRight = Table::Align::kRight;

// The parts behind a lead, in lines that are not too long.
std::string wrapped(const std::string& lead, const std::vector<std::string>& parts) {
  constexpr std::string_view kIndent = "   ";
  std::string text = lead;
  size_t width = lead.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i] + (i + 1 < parts.size() ? "," : "");
    if (width + 1 + part.size() > kLineWidth) {
      text += fmt::format("\n{}", kIndent);
      width = kIndent.size();
    }
    text += " " + part;
    width += 1 + part.size();
  }
  return text + "\n";
}

// Three digits, as many as there is room for.
std::string ratio_text(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0);
}

std::string ratio_text(const Estimate& ratio) {
  return fmt::format("{} [{}, {}]", ratio_text(ratio.value), ratio_text(ratio.low),
                     ratio_text(ratio.high));
}

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

std::string ms_text(double ms) { return fmt::format("{:.0f}", ms); }

void add_match_columns(std::vector<Table::Column>& columns) {
  for (const char* title : {"hard", "soft", "ind.", "miss"}) columns.push_back({title, kRight});
}

void add_cells(const MatchShares& matches, std::vector<std::string>& cells) {
  for (const MatchShare& match : matches) cells.push_back(percent(match.share));
}

std::string stream_text(const RunReport& r) {
  std::string text =
      fmt::format("{}, top-{}: {} computed\n", r.model, r.top_k, counted(r.n_requests, "request"));
  text += fmt::format(
      "passages given, mean {:.2f}{}\n", r.n_given,
      r.n_given < r.top_k
          ? fmt::format(" of {}: keyword search found no more for some questions", r.top_k)
          : "");
  std::vector<std::string> parts = {
      fmt::format("questions asked before {}", percent(r.stream.repeated_questions)),
      fmt::format("lists of passages retrieved before {}", percent(r.stream.repeated_lists)),
      fmt::format("places taken by the most used tenth of the passages {}",
                  percent(r.stream.top_tenth_share))};
  if (r.stream.n_shuffled > 0)
    parts.push_back(fmt::format("lists reordered to be novel {}", r.stream.n_shuffled));
  return text +
         wrapped(fmt::format("stream of {}:", counted(r.stream.n_requests, "request")), parts);
}

std::string config_table(const std::vector<ConfigFigures>& configs) {
  const bool has_p99 =
      std::ranges::any_of(configs, [](const ConfigFigures& c) { return c.ttft.p99.has_value(); });
  std::vector<Table::Column> columns = {
      {"configuration"}, {"TTFT ms", kRight}, {"p50", kRight}, {"p90", kRight}};
  if (has_p99) columns.push_back({"p99", kRight});
  columns.push_back({"full/it [95%]", kRight});
  columns.push_back({"rows/N", kRight});
  add_match_columns(columns);
  for (const char* title : {"seen", "F1", "KL"}) columns.push_back({title, kRight});
  Table table(std::move(columns));
  for (const ConfigFigures& c : configs) {
    std::vector<std::string> cells = {c.config, ms_text(c.ttft.mean), ms_text(c.ttft.p50),
                                      ms_text(c.ttft.p90)};
    if (has_p99) cells.push_back(c.ttft.p99 ? ms_text(*c.ttft.p99) : "");
    cells.push_back(&c == &configs.front() ? "1" : ratio_text(c.full_ratio));
    cells.push_back(fmt::format("{:.2f}", c.rows_share));
    add_cells(c.matches, cells);
    cells.push_back(fmt::format("{:.2f}", c.n_seen));
    cells.push_back(fmt::format("{:.2f}", c.f1.value));
    cells.push_back(fmt::format("{:.3f}", c.kl_seen.value));
    table.add_row(std::move(cells));
  }
  return table.text() +
         "TTFT: mean, then percentiles. full/it: mean TTFT of full prefill over this one's. "
         "rows/N: rows computed over the\n"
         "tokens of the prompts. hard, soft, ind(ependent), miss: shares of chunk tokens. seen: "
         "passages, mean. KL: nats, to\n"
         "full prefill of the passages seen.\n";
}

// An interval that holds the paper's mean decides nothing.
std::string verdict_of(const Estimate& ratio, double paper_mean) {
  if (ratio.low > paper_mean) return "ok";
  return ratio.high < paper_mean ? "missed" : "within the interval";
}

std::string pair_table(const RunReport& r) {
  const bool is_decided = r.is_of_paper && r.n_requests >= kVerdictRequests;
  Table table(
      {{"ratio of mean TTFTs"}, {"here [95%]", kRight}, {"AdaCache paper's mean", kRight}, {""}});
  bool has_rows = false;
  for (const PairFigures& pair : r.pairs) {
    if (!pair.paper_mean) continue;
    table.add_row({fmt::format("{} / {}", pair.slower.config, pair.sooner.config),
                   ratio_text(pair.ratio), ratio_text(*pair.paper_mean),
                   is_decided ? verdict_of(pair.ratio, *pair.paper_mean) : ""});
    has_rows = true;
  }
  if (!has_rows) return "";
  std::string text = "\n" + table.text();
  if (!r.is_of_paper) {
    text +=
        "The paper's means are of a warm store without a limit and six passages as retrieved, so "
        "they decide nothing here.\n";
  } else if (!is_decided) {
    text += fmt::format("Fewer than {} requests: whether a mean is reached is not said.\n",
                        kVerdictRequests);
  }
  return text;
}

std::vector<std::string> parts_of(const ContextFigures& context) {
  std::vector<std::string> parts = {
      fmt::format("{:.2f} rounds", context.n_rounds),
      fmt::format("breaks even at {:.2f}", context.break_even_rounds),
      fmt::format("stopped because sure {}", percent(context.confident_share)),
      fmt::format("question again {} of N", percent(context.repeated_rows_share))};
  std::string_view lead = "passages seen ";
  for (const auto& [n_seen, share] : context.seen_shares) {
    parts.push_back(fmt::format("{}{}: {}", lead, n_seen, percent(share)));
    lead = "";
  }
  return parts;
}

std::string difference_text(const F1Difference& d) {
  const Estimate& e = d.difference;
  std::string text =
      fmt::format("F1 less that of {} {:.2f} [{:.2f}, {:.2f}]", d.fixed, e.value, e.low, e.high);
  if (d.low_target)
    text += fmt::format(" (low end at least {:.2f}: {})", *d.low_target,
                        e.low >= *d.low_target ? "ok" : "missed");
  return text;
}

std::string context_text(const RunReport& r) {
  std::string text;
  for (const ConfigFigures& c : r.configs) {
    if (!c.context) continue;
    std::vector<std::string> parts = parts_of(*c.context);
    for (const F1Difference& d : r.f1_differences) {
      if (d.adaptive == c.config) parts.insert(parts.begin(), difference_text(d));
    }
    text += wrapped(fmt::format("  {}:", c.config), parts);
  }
  return text.empty() ? "" : "\nadaptive context, means\n" + text;
}

std::vector<std::string> parts_of(const SourceConfig& c) {
  std::vector<std::string> parts;
  if (c.context) parts = parts_of(*c.context);
  if (c.cacheblend_ratio)
    parts.insert(parts.begin(), fmt::format("cacheblend / it {}", ratio_text(*c.cacheblend_ratio)));
  return parts;
}

std::string source_text(const std::vector<SourceFigures>& sources) {
  std::string text;
  for (const SourceFigures& source : sources) {
    text += fmt::format("\n{}, {}\n", source.name, counted(source.n_requests, "request"));
    for (const SourceConfig& c : source.configs) {
      const std::vector<std::string> parts = parts_of(c);
      if (!parts.empty()) text += wrapped(fmt::format("  {}:", c.config), parts);
    }
  }
  return text;
}

std::string store_table(const std::vector<StoreFigures>& stores) {
  if (stores.empty()) return "";
  Table table({{"store at the end"},
               {"chunks", kRight},
               {"MB", kRight},
               {"MB in all tiers", kRight},
               {"variants", kRight}});
  for (const StoreFigures& s : stores) {
    table.add_row({s.config, fmt::format("{}", s.n_chunks),
                   fmt::format("{:.1f}", static_cast<double>(s.bytes) / 1e6),
                   fmt::format("{:.1f}", static_cast<double>(s.held_bytes) / 1e6),
                   fmt::format("{}", s.n_variants)});
  }
  return "\n" + table.text();
}

std::string publishing_text(const std::vector<ConfigFigures>& configs) {
  std::vector<std::string> times, failures;
  for (const ConfigFigures& c : configs) {
    times.push_back(fmt::format("{} {}", c.config, ms_text(c.publish_ms)));
    if (c.n_unpublished > 0) failures.push_back(fmt::format("{} {}", c.config, c.n_unpublished));
  }
  std::string text = wrapped("storing after the answer, mean ms:", times);
  if (!failures.empty()) text += wrapped("requests whose chunks were not all stored:", failures);
  return text;
}

std::string steady_table(const std::vector<SteadyFigures>& steady) {
  if (steady.empty()) return "";
  std::vector<Table::Column> columns = {
      {fmt::format("first, last {} requests", steady.front().window)}};
  add_match_columns(columns);
  columns.push_back({"hits change by", kRight});
  columns.push_back({"at least", kRight});
  columns.push_back({""});
  Table table(std::move(columns));
  for (const SteadyFigures& s : steady) {
    std::vector<std::string> cells = {s.config};
    for (size_t i = 0; i < s.first.size(); ++i)
      cells.push_back(
          fmt::format("{:.1f}%, {:.1f}%", 100 * s.first[i].share, 100 * s.last[i].share));
    cells.push_back(fmt::format("{:+.1f} points", s.found_change));
    if (s.floor) {
      cells.push_back(fmt::format("{:.0f}", *s.floor));
      cells.emplace_back(s.found_change >= *s.floor ? "ok" : "missed");
    }
    table.add_row(std::move(cells));
  }
  return "\n" + table.text();
}

std::string stored_text(const RunReport& r) {
  if (r.is_cold) return "";
  return store_table(r.stores) + publishing_text(r.configs);
}

std::string text_of(const RunReport& r) {
  return stream_text(r) + "\n" + config_table(r.configs) + pair_table(r) + context_text(r) +
         source_text(r.sources) + stored_text(r) + steady_table(r.steady) + "\n";
}

std::string text_of(const LongReport& r) {
  std::vector<Table::Column> columns = {
      {"configuration"}, {"ms a row", kRight}, {"TTFT ms", kRight}, {"rows/N", kRight}};
  add_match_columns(columns);
  columns.push_back({"off the real run", kRight});
  columns.push_back({""});
  Table table(std::move(columns));
  size_t n_checked = 0;
  for (const ModelledFigures& c : r.configs) {
    std::vector<std::string> cells = {c.config, fmt::format("{:.3f}", c.row_ms),
                                      ms_text(c.ttft_mean), fmt::format("{:.2f}", c.rows_share)};
    add_cells(c.matches, cells);
    cells.push_back(fmt::format("{:.1f} points", c.greatest_difference));
    if (c.n_checked >= kVerdictRequests)
      cells.emplace_back(c.greatest_difference <= kModelledDifference ? "ok" : "missed");
    table.add_row(std::move(cells));
    n_checked = std::max(n_checked, c.n_checked);
  }
  return fmt::format("{}, top-{}: {} requests over stand-in blobs, compute modelled\n\n{}", r.model,
                     r.top_k, r.n_requests, table.text()) +
         fmt::format(
             "off the real run: greatest difference of a share over the first {} requests, "
             "at most {:.0f} points.\n",
             n_checked, kModelledDifference) +
         steady_table(r.steady) + "\n";
}

std::string generation_table(std::span<const LineageFigures> configs) {
  std::vector<Table::Column> columns = {{"generation", kRight}};
  size_t n_generations = 0;
  for (const LineageFigures& c : configs) {
    columns.push_back({c.config, kRight});
    n_generations = std::max(n_generations, c.generations.size());
  }
  Table table(std::move(columns));
  for (size_t g = 0; g < n_generations; ++g) {
    std::vector<std::string> cells = {fmt::format("{}", g + 1)};
    for (const LineageFigures& c : configs) {
      const GenerationFigures& own = c.generations[g];
      cells.push_back(fmt::format("{:.3f} / {} / {}", own.kl, percent(own.soft_share), own.depth));
    }
    table.add_row(std::move(cells));
  }
  return "\n" + table.text();
}

std::string verdict_text(double value, double ceiling) {
  return fmt::format(" (at most {:.2g}: {})", ceiling, value <= ceiling ? "ok" : "missed");
}

// A mean of few lists decides nothing; a depth does.
std::string lineage_text(const LineageFigures& c, size_t n_lists) {
  std::vector<std::string> parts;
  if (c.kl_growth) {
    const bool is_decided = c.is_bounded && n_lists >= kVerdictRequests;
    parts.push_back(fmt::format("KL of the last generation / the first {:.2f}{}", *c.kl_growth,
                                is_decided ? verdict_text(*c.kl_growth, kGrowthCeiling) : ""));
  }
  parts.push_back(fmt::format("greatest depth {}{}", c.depth,
                              c.is_bounded ? verdict_text(c.depth, kDepthCeiling) : ""));
  return wrapped(fmt::format("  {}:", c.config), parts);
}

std::string text_of(const GenerationsReport& r) {
  std::string text = fmt::format(
      "{}, top-{}: {} lists of passages, again and again in new orders\n"
      "each cell: mean KL to full, nats / soft share of chunk tokens / greatest depth of "
      "approximation that was loaded\n",
      r.model, r.top_k, r.n_lists);
  constexpr size_t kConfigsInRow = 5;  // as many as a line holds
  const std::span<const LineageFigures> configs = r.configs;
  for (size_t begin = 0; begin < configs.size(); begin += kConfigsInRow)
    text +=
        generation_table(configs.subspan(begin, std::min(kConfigsInRow, configs.size() - begin)));
  text += "\n";
  for (const LineageFigures& c : configs) text += lineage_text(c, r.n_lists);
  return text + store_table(r.stores) + "\n";
}

std::string growth_text(const TopKReport& r, std::optional<double> TopKRatios::*value) {
  const std::optional<double> first = r.ratios.front().*value, last = r.ratios.back().*value;
  return first && last ? ratio_text(*last / *first) : "";
}

std::string text_of(const TopKReport& r) {
  const auto cell = [](const std::optional<double>& ratio) {
    return ratio ? ratio_text(*ratio) : "";
  };
  Table table(
      {{"ratio of mean TTFTs"}, {"full / adacache+aca", kRight}, {"full / prefix", kRight}});
  for (const TopKRatios& k : r.ratios)
    table.add_row({fmt::format("top-{}", k.top_k), cell(k.adaptive), cell(k.prefix)});
  table.add_row({"most passages / fewest", growth_text(r, &TopKRatios::adaptive),
                 growth_text(r, &TopKRatios::prefix)});
  table.add_row(
      {"AdaCache paper, top-2", ratio_text(kPaperAdaptive.top_2), ratio_text(kPaperPrefix.top_2)});
  table.add_row(
      {"AdaCache paper, top-8", ratio_text(kPaperAdaptive.top_8), ratio_text(kPaperPrefix.top_8)});
  return fmt::format("{}: whether the lead grows with the passages\n\n{}\n", r.model, table.text());
}

}  // namespace

std::string trace_text(const TraceReport& report) {
  return std::visit([](const auto& r) { return text_of(r); }, report);
}

json bench_json(std::span<const BenchResult> results, std::span<const uint64_t> seeds,
                const json& run) {
  const BuildInfo build = build_info();
  json rows = json::array();
  for (const BenchResult& r : results) {
    rows.push_back({{"name", r.name},
                    {"value", r.value},
                    {"unit", r.unit},
                    {"target", r.target ? json(*r.target) : json()},
                    {"ok", r.ok()}});
  }
  json drawn = json::array();
  for (const uint64_t seed : seeds) drawn.push_back(seed);
  json out = {{"machine",
               {{"cpu", build.cpu}, {"flags", build.cpu_flags}, {"threads", available_threads()}}},
              {"commit", build.commit},
              {"ggml", build.ggml},
              {"seeds", drawn},
              {"results", rows}};
  if (!run.is_null()) out["run"] = run;
  return out;
}

void print_bench_results(const Session& session, std::span<const BenchResult> results,
                         std::span<const uint64_t> seeds, const json& run) {
  if (!session.json()) {
    Table table({{"measurement"},
                 {"value", Table::Align::kRight},
                 {"unit"},
                 {"target", Table::Align::kRight},
                 {""}});
    for (const BenchResult& r : results) {
      table.add_row({r.name, fmt::format("{:.4g}", r.value), r.unit,
                     r.target ? fmt::format("{} {:.4g}", r.at_most ? "<=" : ">=", *r.target) : "",
                     r.target ? (r.ok() ? "ok" : "MISSED") : ""});
    }
    return session.print(table.text());
  }
  session.print_json(bench_json(results, seeds, run));
}

}  // namespace tessera
