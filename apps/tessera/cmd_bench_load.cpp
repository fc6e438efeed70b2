// `tessera bench load`: the same stream as a queue in front of one engine, at several rates.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "bench/load.h"
#include "tessera/bench_output.h"
#include "tessera/command.h"
#include "tessera/load_output.h"
#include "tessera/trace_options.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

const std::vector<std::string> kConfigs = {"full",       "prefix",   "reuse",
                                           "cacheblend", "adacache", "query_aware"};

struct Options {
  TraceCommand command;
  LoadBenchOptions load;
  int32_t top_k = 6;
  std::string goodput;
  std::string quality = "f1:0.5";
  std::string arrivals;
};

constexpr double kMostRate = 1e6;

void read_bounds(Options& o) {
  if (!o.goodput.empty()) {
    const std::optional<double> ms = ttft_bound_from(o.goodput);
    if (!ms) {
      throw Error(ErrorCode::kInvalidRequest,
                  "--goodput " + o.goodput + " - is no bound - write ttft:MS, as in ttft:800");
    }
    o.load.ttft_bound_ms = *ms;
  }
  const std::optional<QualityBound> quality = quality_bound_from(o.quality);
  if (!quality) {
    throw Error(ErrorCode::kInvalidRequest,
                "--quality " + o.quality +
                    " - is no bound - write f1:0.5, kl:0.1, top1:0.9, with a number of your own, "
                    "or same");
  }
  o.load.quality = *quality;
}

void run(const Session& session, const CLI::App& app, Options o) {
  read_bounds(o);
  o.load.arrivals_file = o.arrivals;
  o.command.trace.top_k = {o.top_k};
  complete_trace(session, app, kConfigs, o.command);
  make_private_dir(cache_dir());
  const ScratchFolder folder(cache_dir());  // below the cache, whose disk is the one to measure
  o.command.trace.work_dir = folder.path();
  o.load.trace = o.command.trace;
  const LoadReport report = bench_load(o.load);
  if (session.json()) {
    nlohmann::json out = bench_json({}, std::vector{o.load.trace.stream.seed, o.load.arrival_seed},
                                    trace_header(o.command));
    out["load"] = load_json(report, o.load);
    session.print_json(out);
  } else {
    session.print(load_text(report, o.load));
  }
  if (!report.is_complete) session.note("interrupted: the results are of what was ready");
}

void add_queue_options(CLI::App& app, Options& o) {
  app.add_option("--rates", o.load.rates,
                 "Requests a second, several as in 0.05,0.1,0.2; default: a quarter to twice what "
                 "full prefill can do")
      ->delimiter(',')
      ->check(CLI::Range(1 / kMostRate, kMostRate));
  app.add_option("--arrivals", o.arrivals,
                 "Trace whose arrivals are taken, scaled to each rate, in place of Poisson "
                 "arrivals: JSONL with \"timestamp\" in ms, or CSV with a column TIMESTAMP");
  app.add_option("--runs", o.load.n_runs,
                 "Runs of arrivals at each rate; they cost next to nothing")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--arrival-seed", o.load.arrival_seed, "Of the arrivals")->capture_default_str();
  app.add_option("--goodput", o.goodput,
                 "What a request must keep, as in ttft:800: ms to the first token, with the wait; "
                 "default: twice the median of full prefill without a queue");
  app.add_option("--quality", o.quality,
                 "What a good answer keeps: f1:0.5 with the gold answer; kl:0.1 or top1:0.9 to "
                 "full prefill; same: its answer")
      ->capture_default_str();
  app.add_option("--check-rate", o.load.check_rate,
                 "Then one configuration answers the stream in real time at that rate, and what "
                 "was computed is held against it; 0: none")
      ->check(CLI::Range(0.0, kMostRate));
  app.add_option("--check-config", o.load.check_config, "Which; default: the last of --configs");
}

}  // namespace

void add_bench_load(CLI::App& bench, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand(
      "load",
      "A queue of questions in front of one engine: waits, goodput and the highest rate of each "
      "policy");
  add_trace_options(*sub, options->command,
                    "full, prefix, reuse, cacheblend, adacache, query_aware");
  sub->add_option("--top-k", options->top_k, "Passages to retrieve")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  add_queue_options(*sub, *options);
  sub->callback([options, sub, &session] { run(session, *sub, *options); });
}

}  // namespace tessera
