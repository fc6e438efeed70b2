// `tessera bench trace`: requests one after the other over a store that fills, ages and is bounded,
// under several configurations.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "bench/trace.h"
#include "bench/trace_results.h"
#include "tessera/bench_output.h"
#include "tessera/command.h"
#include "tessera/trace_options.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Of the corpus's own KV, where requests are novel: what is kept has to be worth it.
constexpr double kNovelShare = 1.0 / 3;

// Those of the paper's table, and for generations AdaCache as it is and as in its paper.
const std::vector<std::string> kConfigs = {
    "full", "prefix", "cacheblend", "adacache", "adacache+aca", "prefix+aca", "cacheblend+aca"};
const std::vector<std::string> kGenerationConfigs = {"adacache", "adacache+paper"};

struct Options {
  TraceCommand command;
  std::string out;
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidRequest, what); }

// The rows of a run, a line each, as they come; behind a line that says what was run, which a run
// without rows does not leave. Rows of earlier runs are not written over.
class RowFile {
 public:
  RowFile(const fs::path& folder, ordered_json header)
      : path_(folder / "trace.jsonl"), header_(std::move(header)) {
    make_private_dir(folder);
    std::error_code error;
    const auto bytes = fs::file_size(path_, error);
    if (!error && bytes > 0) {
      refuse(
          fmt::format("{} - holds the rows of an earlier run - name another folder with --out, "
                      "or move it away",
                      path_.string()));
    }
    out_.open(path_, std::ios::trunc);
    require_written();
  }

  void add(const ordered_json& row) {
    if (!header_.is_null()) write(std::exchange(header_, nullptr));
    write(row);
  }

 private:
  void write(const ordered_json& row) {
    // The answer of a model may hold any bytes; a bad one must not cost the row.
    out_ << row.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n" << std::flush;
    require_written();
  }

  void require_written() const {
    if (out_) return;
    throw Error(ErrorCode::kIo,
                fmt::format("cannot write {} - the disk may be full, or the folder closed - name "
                            "another one with --out",
                            path_.string()));
  }

  fs::path path_;
  ordered_json header_;  // null: it is written
  std::ofstream out_;
};

void check_generations(const TraceCommand& o) {
  const TraceOptions& t = o.trace;
  if (t.n_generations == 0) return;
  if (t.top_k.size() > 1 || t.n_long_requests > 0) {
    refuse(
        "bench trace - --generations is one run for one number of passages - leave out --long and "
        "name one --top-k");
  }
  if (o.store != "warm") {
    refuse(
        "bench trace - --generations starts from indexed passages, which only a warm store has - "
        "leave out --store");
  }
}

void complete_stream(const Session& session, TraceOptions& t) {
  const std::set<int32_t> distinct(t.top_k.begin(), t.top_k.end());
  if (distinct.size() < t.top_k.size())
    refuse("bench trace - a number of passages is named twice - name each --top-k once");
  if (t.is_novel) {
    t.stream.n_distinct = 0;
    if (t.store_limit_bytes == 0 && t.store_share == 0) t.store_share = kNovelShare;
  } else if (t.n_long_requests > t.n_requests) {
    t.stream.n_distinct = t.n_requests;
    session.note(
        "--long without --novel: behind the real run questions come again when all of their "
        "article were asked; the share of those is printed");
  }
}

// Slips are said before the model loads.
void run(const Session& session, const CLI::App& app, Options o) {
  TraceOptions& t = o.command.trace;
  check_generations(o.command);
  complete_stream(session, t);
  complete_trace(session, app, t.n_generations > 0 ? kGenerationConfigs : kConfigs, o.command);
  // Below the cache, whose disk is the one to measure.
  make_private_dir(cache_dir());
  const ScratchFolder folder(cache_dir());
  t.work_dir = folder.path();
  std::unique_ptr<RowFile> rows;
  if (!o.out.empty()) {
    rows = std::make_unique<RowFile>(o.out, trace_header(o.command));
    t.on_row = [&rows](const ordered_json& row) { rows->add(row); };
  }
  std::vector<BenchResult> all;  // under --json stdout carries one object
  t.on_report = [&](const TraceReport& report) {
    if (!session.json()) return session.print(trace_text(report));
    const std::vector<BenchResult> results = results_of(report);
    all.insert(all.end(), results.begin(), results.end());
  };
  const bool is_complete = bench_trace(t);
  if (session.json())
    print_bench_results(session, all, std::vector{t.stream.seed}, trace_header(o.command));
  if (!is_complete) session.note("interrupted: the results are of the requests that were ready");
}

void add_run_options(CLI::App& app, TraceOptions& t) {
  app.add_option("--top-k", t.top_k, "Passages to retrieve; several, as in 2,4,6,8: a run for each")
      ->delimiter(',')
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  app.add_flag("--novel", t.is_novel,
               "No two requests have the same passages in the same order; questions come again "
               "when all of their article were asked, and the store holds a third of the corpus "
               "unless a limit is given");
  app.add_option("--long", t.n_long_requests,
                 "Then so many requests over stand-in blobs, with compute modelled by what a row "
                 "cost in the real run, which is their beginning; behind that, questions come "
                 "again when all of their article were asked; 0: none")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--generations", t.n_generations,
                 "Instead: the same passages so many times, at least 2, in new orders, over a warm "
                 "store, under adacache as it is and as in its paper (adacache+paper)")
      ->check(CLI::Range(2, 100));
}

}  // namespace

void add_bench_trace(CLI::App& bench, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand(
      "trace",
      "A stream of questions over one corpus and stores that live as long: hits, times, quality");
  add_trace_options(*sub, options->command, "all that AdaCache's paper compares");
  add_run_options(*sub, options->command.trace);
  sub->add_option("--out", options->out,
                  "Folder for trace.jsonl, with a row for each request and configuration; one "
                  "that holds rows already is refused");
  sub->callback([options, sub, &session] { run(session, *sub, *options); });
}

}  // namespace tessera
