#include "bench/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "bench/load_arrivals.h"
#include "bench/trace_run.h"
#include "eval/sample_lines.h"

namespace tessera {
namespace {

constexpr std::array kRateShares = {0.25, 0.5, 0.75, 1.0, 1.5, 2.0};  // of full's capacity

struct BoundName {
  std::string_view name;
  QualityBound::Kind kind;
  double most;  // that the limit can be
};
constexpr BoundName kBoundNames[] = {{"f1", QualityBound::Kind::kF1, 1},
                                     {"kl", QualityBound::Kind::kKl, 1e6},
                                     {"top1", QualityBound::Kind::kTop1, 1}};

// Of "NAME:NUMBER", which is finite and not negative.
std::optional<double> number_behind(std::string_view name, std::string_view text) {
  if (!text.starts_with(name) || text.substr(name.size(), 1) != ":") return std::nullopt;
  text.remove_prefix(name.size() + 1);
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error == std::errc() && stop == end && std::isfinite(number);
  return is_number && number >= 0 ? std::optional(number) : std::nullopt;
}

std::vector<Gaps> draw_runs(const LoadBenchOptions& o, size_t n_requests) {
  if (o.arrivals_file.empty()) return poisson_gaps(o.n_runs, n_requests, o.arrival_seed);
  const std::string origin = o.arrivals_file.string();
  return trace_gaps(parse_arrivals(read_text(o.arrivals_file), origin), origin, o.n_runs,
                    n_requests, o.arrival_seed);
}

const TraceConfig* find_check(const LoadBenchOptions& o) {
  if (o.check_config.empty()) return &o.trace.configs.back();
  const auto found = std::ranges::find(o.trace.configs, o.check_config, &TraceConfig::name);
  return found == o.trace.configs.end() ? nullptr : &*found;
}

Service service_of(const TraceRow& row, bool is_good) {
  return {row.ttft_ms, row.answer_ms, row.answer_ms + row.publish_ms, row.account.total(), is_good};
}

std::vector<Service> services_of(const TraceTable& table, size_t config,
                                 const QualityBound& quality) {
  std::vector<Service> out;
  for (size_t i = 0; i < table.rows[config].size(); ++i) {
    const TraceRow& row = table.rows[config][i];
    out.push_back(service_of(row, is_good(row, table.rows.front()[i], quality)));
  }
  return out;
}

double default_bound_ms(std::span<const TraceRow> full) {
  std::vector<double> ttft = values_of(full, [](const TraceRow& r) { return r.ttft_ms; });
  std::ranges::sort(ttft);
  return std::ceil(2 * quantile(ttft, 0.5));
}

// Two digits: a rate to type again.
double rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return std::round(rate / unit) * unit;
}

std::vector<double> default_rates(double capacity) {
  std::vector<double> out;
  out.reserve(kRateShares.size());
  for (const double share : kRateShares) out.push_back(rounded(share * capacity));
  return out;
}

void add_figures(const LoadBenchOptions& o, std::span<const Gaps> runs, LoadReport& report) {
  report.ttft_bound_ms =
      o.ttft_bound_ms > 0 ? o.ttft_bound_ms : default_bound_ms(report.table.rows.front());
  for (size_t c = 0; c < report.table.configs.size(); ++c) {
    ConfigLoad& config = report.configs.emplace_back();
    config.config = report.table.configs[c];
    config.services = services_of(report.table, c, o.quality);
    config.capacity = capacity_of(config.services);
    if (c == 0) report.rates = o.rates.empty() ? default_rates(config.capacity) : o.rates;
    config.highest_rate = highest_rate(runs, config.services, report.ttft_bound_ms, kHeldShare);
    for (const double rate : report.rates)
      config.at.push_back(queue_figures(runs, rate, config.services, report.ttft_bound_ms));
  }
}

// Until `ms` on the watch have passed. Throws Error(kCancelled).
void wait_until(const Stopwatch& watch, double ms, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wakes;  // by a stop alone
  std::unique_lock lock(mutex);
  const std::chrono::duration<double, std::milli> left(ms - watch.ms());
  if (left.count() > 0) wakes.wait_for(lock, stop, left, [] { return false; });
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "stopped between two requests");
}

struct Replay {
  std::vector<Visit> visits;
  std::vector<Service> services;
};

// Requests come when they come, whether or not the one before is done; each retrieves its passages
// anew. What is measured of a request is what run_trace() measures of it.
Replay replay(const LoadBenchOptions& o, TraceRig& rig, const TraceStream& stream,
              std::span<const Visit> planned) {
  TraceLane lane = open_lane(o.trace, rig, *find_check(o));
  answer_request(o.trace, rig.data(), stream.requests.back(), lane);  // as before the real run
  Replay out;
  const Stopwatch clock;
  for (size_t i = 0; i < planned.size(); ++i) {
    const double arrival_ms = planned[i].arrival_ms;
    wait_until(clock, arrival_ms, o.trace.stop);
    const double start_ms = clock.ms();
    TraceRequest asked = {stream.requests[i].question, {}, 0};
    asked.passages = rig.retrieve(asked.question, stream.top_k);
    asked.retrieve_ms = clock.ms() - start_ms;
    answer_request(o.trace, rig.data(), asked, lane);
    publish_answer(o.trace, lane);
    out.visits.push_back({arrival_ms, start_ms - arrival_ms});
    out.services.push_back({lane.answer.timings.ttft_ms(), lane.answer_ms, clock.ms() - start_ms,
                            lane.answer.account.total(), false});
  }
  return out;
}

LoadCheck check(const LoadBenchOptions& o, TraceRig& rig, const TraceStream& stream,
                const Gaps& gaps, const LoadReport& report) {
  const TraceConfig& config = *find_check(o);
  const auto of_config = std::ranges::find(report.configs, config.name, &ConfigLoad::config);
  CHECK(of_config != report.configs.end());
  const std::span<const Service> services = of_config->services;
  const std::vector<Visit> computed = visits_at(gaps, o.check_rate, services);
  if (o.trace.note) {
    o.trace.note(fmt::format("{} in real time at {:.3g} requests/s: at least {:.0f} s", config.name,
                             o.check_rate, computed.back().arrival_ms / 1000));
  }
  Replay run = replay(o, rig, stream, computed);
  LoadCheck out;
  out.config = config.name;
  out.rate = o.check_rate;
  out.measured = queue_values(run.visits, run.services, report.ttft_bound_ms);
  out.computed = queue_values(computed, services, report.ttft_bound_ms);
  const std::vector<Visit> again = visits_at(gaps, o.check_rate, run.services);
  for (size_t i = 0; i < again.size(); ++i)
    out.recursion_off_ms =
        std::max(out.recursion_off_ms, std::abs(again[i].wait_ms - run.visits[i].wait_ms));
  out.services = std::move(run.services);
  return out;
}

}  // namespace

std::optional<double> ttft_bound_from(std::string_view text) {
  const std::optional<double> ms = number_behind("ttft", text);
  return ms && *ms > 0 ? ms : std::nullopt;
}

std::optional<QualityBound> quality_bound_from(std::string_view text) {
  if (text == "same") return QualityBound{QualityBound::Kind::kSame, 0};
  for (const BoundName& known : kBoundNames) {
    const std::optional<double> limit = number_behind(known.name, text);
    if (limit && *limit <= known.most) return QualityBound{known.kind, *limit};
  }
  return std::nullopt;
}

bool is_good(const TraceRow& row, const TraceRow& full, const QualityBound& bound) {
  switch (bound.kind) {
    case QualityBound::Kind::kF1:
      return row.f1 >= bound.limit;
    case QualityBound::Kind::kKl:
      return row.kl <= bound.limit;
    case QualityBound::Kind::kTop1:
      return row.top1 >= bound.limit;
    case QualityBound::Kind::kSame:
      return row.answer == full.answer;
  }
  return false;
}

LoadReport bench_load(const LoadBenchOptions& o) {
  CHECK(o.trace.top_k.size() == 1);
  if (o.check_rate > 0 && find_check(o) == nullptr) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("--check-config {} - is none of the configurations that run - name it "
                            "in --configs too",
                            o.check_config));
  }
  std::vector<Gaps> runs = draw_runs(o, o.trace.n_requests);
  TraceRig rig(o.trace);
  rig.limits();  // one that cannot be held is refused first
  const TraceStream stream = std::move(draw_streams(o.trace, rig).front());
  note_price(o.trace);
  LoadReport report;
  report.model = o.trace.model_name;
  report.top_k = stream.top_k;
  report.table = run_trace(o.trace, rig, stream.top_k, stream.requests).table;
  report.is_complete = report.table.is_complete;
  const size_t n_done = report.table.rows.front().size();
  if (n_done == 0) return report;
  for (Gaps& gaps : runs) gaps.resize(n_done);  // of the requests that were finished
  add_figures(o, runs, report);
  if (o.check_rate == 0 || !report.is_complete) return report;
  try {
    report.check = check(o, rig, stream, runs.front(), report);
  } catch (const Error& error) {  // what was computed is reported
    if (error.code() != ErrorCode::kCancelled) throw;
    report.is_complete = false;
  }
  return report;
}

}  // namespace tessera
