#include "tessera/load_output.h"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/format.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr auto kRight = Table::Align::kRight;
constexpr size_t kTailRequests = 100;  // fewer have no 99th percentile to speak of

std::string ms_text(double ms) { return fmt::format("{:.0f}", ms); }

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

std::string rate_text(double rate) { return fmt::format("{:.3g}", rate); }

double mean_of(std::span<const Service> services, double (*value)(const Service&)) {
  double sum = 0;
  for (const Service& s : services) sum += value(s);
  return sum / static_cast<double>(services.size());
}

double mean_total_ms(std::span<const Service> services) {
  return mean_of(services, [](const Service& s) { return s.total_ms; });
}

std::string quality_text(const QualityBound& bound) {
  switch (bound.kind) {
    case QualityBound::Kind::kF1:
      return fmt::format("F1 at least {:.3g}", bound.limit);
    case QualityBound::Kind::kKl:
      return fmt::format("KL to full prefill at most {:.3g}", bound.limit);
    case QualityBound::Kind::kTop1:
      return fmt::format("top-1 agreement with full prefill at least {:.3g}", bound.limit);
    case QualityBound::Kind::kSame:
      return "the answer of full prefill";
  }
  return "";
}

std::string highest_text(double rate) {
  if (rate == 0) return "no rate";
  return std::isinf(rate) ? "any rate" : rate_text(rate);
}

std::string store_name(StoreMode mode) {
  return mode == StoreMode::kWarm ? "warm" : mode == StoreMode::kFilling ? "filling" : "cold";
}

std::string arrivals_text(const LoadBenchOptions& o) {
  return o.arrivals_file.empty() ? "Poisson arrivals"
                                 : fmt::format("stretches of {}", o.arrivals_file.string());
}

std::string config_table(const LoadReport& r) {
  Table table({{"configuration"},
               {"first token", kRight},
               {"rest", kRight},
               {"storing", kRight},
               {"capacity/s", kRight},
               {"in time", kRight},
               {"good", kRight},
               {fmt::format("{} in time up to/s", percent(kHeldShare)), kRight}});
  for (const ConfigLoad& c : r.configs) {
    double n_met = 0, n_good = 0;
    for (const Service& s : c.services) {
      n_met += s.first_token_ms <= r.ttft_bound_ms ? 1 : 0;
      n_good += s.is_good ? 1 : 0;
    }
    const auto n = static_cast<double>(c.services.size());
    table.add_row(
        {c.config, ms_text(mean_of(c.services, [](const Service& s) { return s.first_token_ms; })),
         ms_text(
             mean_of(c.services, [](const Service& s) { return s.answer_ms - s.first_token_ms; })),
         ms_text(mean_of(c.services, [](const Service& s) { return s.total_ms - s.answer_ms; })),
         rate_text(c.capacity), percent(n_met / n), percent(n_good / n),
         highest_text(c.highest_rate)});
  }
  return table.text() +
         "Measured without a queue, mean ms: to the first token, the rest of the answer, storing "
         "behind it. capacity: requests\n"
         "that keep the server busy. in time, good: share that keeps the bound of TTFT without a "
         "queue, and that of quality.\n";
}

std::string rate_table(const LoadReport& r, size_t at) {
  const bool has_p99 = r.table.rows.front().size() >= kTailRequests;
  std::vector<Table::Column> columns = {
      {"configuration"}, {"TTFT p50", kRight}, {"p90 [95%]", kRight}};
  if (has_p99) columns.push_back({"p99", kRight});
  for (const char* title : {"wait", "queue", "busy", "req/s", "in time", "goodput", "quality"})
    columns.push_back({title, kRight});
  Table table(std::move(columns));
  for (const ConfigLoad& c : r.configs) {
    const QueueFigures& f = c.at[at];
    const Estimate& p90 = f[kTtftP90];
    std::vector<std::string> cells = {
        c.config, ms_text(f[kTtftP50].value),
        fmt::format("{} [{}, {}]", ms_text(p90.value), ms_text(p90.low), ms_text(p90.high))};
    if (has_p99) cells.push_back(ms_text(f[kTtftP99].value));
    cells.push_back(ms_text(f[kWaitMean].value));
    cells.push_back(fmt::format("{:.3g}", f[kQueueLength].value));
    cells.push_back(percent(f[kUtilisation].value));
    cells.push_back(rate_text(f[kThroughput].value));
    cells.push_back(percent(f[kMetShare].value));
    cells.push_back(rate_text(f[kGoodput].value));
    cells.push_back(rate_text(f[kQualityGoodput].value));
    table.add_row(std::move(cells));
  }
  return fmt::format("\n{} requests/s\n{}", rate_text(r.rates[at]), table.text());
}

std::string difference_text(double measured, double computed) {
  if (computed == 0) return measured == 0 ? "0%" : "";
  return fmt::format("{:+.1f}%", 100 * (measured / computed - 1));
}

std::string check_text(const LoadReport& r, const LoadCheck& c) {
  Table table({{fmt::format("{} at {} requests/s, in real time", c.config, rate_text(c.rate))},
               {"TTFT p50", kRight},
               {"p90", kRight},
               {"wait", kRight},
               {"req/s", kRight},
               {"service", kRight}});
  double service = 0;
  for (const ConfigLoad& config : r.configs)
    if (config.config == c.config) service = mean_total_ms(config.services);
  const double own = mean_total_ms(c.services);
  const auto row = [&](const char* name, const QueueValues& v, double service_ms) {
    table.add_row({name, ms_text(v[kTtftP50]), ms_text(v[kTtftP90]), ms_text(v[kWaitMean]),
                   rate_text(v[kThroughput]), ms_text(service_ms)});
  };
  row("measured", c.measured, own);
  row("computed", c.computed, service);
  const auto off = [&](QueueValue v) { return difference_text(c.measured[v], c.computed[v]); };
  table.add_row({"measured is off by", off(kTtftP50), off(kTtftP90), off(kWaitMean),
                 off(kThroughput), difference_text(own, service)});
  return fmt::format(
      "\n{}service: mean ms at the server. From the services of that run itself the recursion "
      "gives each wait to {:.1f} ms.\n",
      table.text(), c.recursion_off_ms);
}

std::string head_text(const LoadReport& r, const LoadBenchOptions& o) {
  return fmt::format("{}, top-{}: {}, one at a time in the order of arrival, {} store\n", r.model,
                     r.top_k, counted(r.table.rows.front().size(), "request"),
                     store_name(o.trace.mode)) +
         fmt::format("bounds: TTFT at most {} ms with the wait, {}\n\n", ms_text(r.ttft_bound_ms),
                     quality_text(o.quality));
}

std::string queue_text(const LoadReport& r, const LoadBenchOptions& o) {
  return fmt::format(
      "\nWaits are computed by Lindley's recursion from the measured times, exact for one server,\n"
      "over {} of {}; each begins idle.\n"
      "Means over the runs; [95%]: what 95% of them lie between. wait, TTFT: ms. queue: requests\n"
      "that wait, mean. busy: share of the time. in time: share that keeps the\n"
      "bound of TTFT; goodput: those a second; quality: those of them a second whose answer is "
      "good\n"
      "(quality_goodput). Above the capacity the queue grows as long as requests come, so there "
      "the\n"
      "figures are of runs of {} and no others.\n",
      counted(o.n_runs, "run"), arrivals_text(o), counted(r.table.rows.front().size(), "request"));
}

json requests_json(const std::vector<TraceRow>& rows, const std::vector<Service>& services) {
  json out = json::array();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Service& s = services[i];
    out.push_back({{"question", rows[i].question},
                   {"first_token_ms", s.first_token_ms},
                   {"answer_ms", s.answer_ms},
                   {"total_ms", s.total_ms},
                   {"prompt_tokens", s.prompt_tokens},
                   {"f1", rows[i].f1},
                   {"kl", rows[i].kl},
                   {"top1", rows[i].top1},
                   {"is_good", s.is_good}});
  }
  return out;
}

// Of few requests there is no 99th percentile.
bool is_known(QueueValue value, size_t n_requests) {
  return value != kTtftP99 || n_requests >= kTailRequests;
}

json figures_json(const QueueFigures& figures, size_t n_requests) {
  json out = json::object();
  for (size_t v = 0; v < kNumQueueValues; ++v) {
    const auto value = static_cast<QueueValue>(v);
    const Estimate& e = figures[v];
    out[std::string(queue_value_name(value))] =
        is_known(value, n_requests) ? json{{"value", e.value}, {"low", e.low}, {"high", e.high}}
                                    : json();
  }
  return out;
}

// What the check does not measure is left out.
json values_json(const QueueValues& values, size_t n_requests) {
  json out = json::object();
  for (size_t v = 0; v < kNumQueueValues; ++v) {
    const auto value = static_cast<QueueValue>(v);
    if (value != kQualityGoodput && is_known(value, n_requests))
      out[std::string(queue_value_name(value))] = values[v];
  }
  return out;
}

json check_json(const LoadCheck& c) {
  json services = json::array();
  for (const Service& s : c.services) {
    services.push_back({{"first_token_ms", s.first_token_ms},
                        {"answer_ms", s.answer_ms},
                        {"total_ms", s.total_ms}});
  }
  return {{"config", c.config},
          {"rate", c.rate},
          {"measured", values_json(c.measured, c.services.size())},
          {"computed", values_json(c.computed, c.services.size())},
          {"recursion_off_ms", c.recursion_off_ms},
          {"requests", std::move(services)}};
}

}  // namespace

std::string load_text(const LoadReport& report, const LoadBenchOptions& options) {
  if (report.configs.empty()) return "";
  std::string text = head_text(report, options) + config_table(report);
  for (size_t at = 0; at < report.rates.size(); ++at) text += rate_table(report, at);
  text += queue_text(report, options);
  if (report.check) text += check_text(report, *report.check);
  return text;
}

json load_json(const LoadReport& report, const LoadBenchOptions& options) {
  json configs = json::array();
  for (size_t c = 0; c < report.configs.size(); ++c) {
    const ConfigLoad& config = report.configs[c];
    json at = json::array();
    for (size_t i = 0; i < report.rates.size(); ++i) {
      json figures = figures_json(config.at[i], config.services.size());
      figures["rate"] = report.rates[i];
      figures["is_above_capacity"] = report.rates[i] >= config.capacity;
      at.push_back(std::move(figures));
    }
    const bool has_rate = config.highest_rate > 0 && std::isfinite(config.highest_rate);
    configs.push_back({{"config", config.config},
                       {"capacity", config.capacity},
                       {"highest_rate", has_rate ? json(config.highest_rate) : json()},
                       {"holds_at_any_rate", std::isinf(config.highest_rate)},
                       {"requests", requests_json(report.table.rows[c], config.services)},
                       {"at", std::move(at)}});
  }
  return {{"arrivals", options.arrivals_file.empty() ? json() : json(options.arrivals_file)},
          {"runs", options.n_runs},
          {"ttft_bound_ms", report.ttft_bound_ms},
          {"quality", quality_text(options.quality)},
          {"held_share", kHeldShare},
          {"is_complete", report.is_complete},
          {"rates", report.rates},
          {"configs", std::move(configs)},
          {"check", report.check ? check_json(*report.check) : json()}};
}

}  // namespace tessera
