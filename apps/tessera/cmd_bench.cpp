#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "bench/bench.h"
#include "catalog/catalog.h"
#include "tessera/bench_output.h"
#include "tessera/command.h"
#include "tessera/demo_data.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

struct Options {
  std::vector<std::string> models;
  std::string scorer;
  LoadingOptions loading;
  int32_t rounds = 5;
  int32_t n_tokens = 0;
  double ratio = 0.15;
};

std::vector<std::string> pulled_models() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog()) {
    if (std::filesystem::exists(model_path(entry.name))) names.push_back(entry.name);
  }
  if (names.empty())
    throw Error(ErrorCode::kNotFound,
                "bench - no model is here - fetch one with 'tessera model pull NAME'");
  return names;
}

BenchOptions options_for(const Session& session, const Options& o, const std::string& model) {
  BenchOptions b;
  b.model_path = resolve_model(model);
  b.model_name = model;
  if (!o.scorer.empty()) b.scorer_path = resolve_model(o.scorer);
  b.load = o.loading.load_options();
  b.n_threads = o.loading.n_threads;
  b.rounds = o.rounds;
  b.n_tokens = o.n_tokens;
  b.ratio = o.ratio;
  b.text = demo_text();
  b.note = [&session](std::string_view line) { session.note(line); };
  b.stop = session.stop_token();
  return b;
}

// Below the cache, whose disk is the one to measure.
std::vector<BenchResult> ttft_in_scratch_folder(const BenchOptions& options) {
  make_private_dir(cache_dir());
  const ScratchFolder folder(cache_dir());
  BenchOptions with_folder = options;
  with_folder.kv_dir = folder.path();
  return bench_ttft(with_folder);
}

using Measure = std::vector<BenchResult> (*)(const BenchOptions&);

void run(const Session& session, const Options& o, const std::vector<std::string>& models,
         Measure measure) {
  std::vector<BenchResult> all;
  for (const std::string& model : models) {
    const std::vector<BenchResult> results = measure(options_for(session, o, model));
    all.insert(all.end(), results.begin(), results.end());
  }
  print_bench_results(session, all);
}

void add_measurement(CLI::App& bench, Session& session, const std::string& name,
                     const std::string& help, Measure measure) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand(name, help);
  sub->add_option(
      "models", options->models,
      "Names or paths; default: " +
          std::string(name == "ttft" ? kDefaultModel : "every pulled model of the catalogue"));
  sub->add_option("--rounds", options->rounds, "Counted rounds; each runs every variant once")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  if (name == "ttft") {
    sub->add_option("--ratio", options->ratio, "Share of reused tokens that policies recompute")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    sub->add_option("--scorer", options->scorer,
                    "Small model of speccache; default: smollm2-135m where it is pulled");
    options->loading.add_keep_file_types_to(*sub);
  } else {
    sub->add_option("--tokens", options->n_tokens,
                    name == "prefill" ? "Rows (1024)" : "Steps (64), behind 256 rows")
        ->check(CLI::Range(1, 16384));
  }
  options->loading.add_to(*sub);
  sub->callback([options, &session, measure, name] {
    std::vector<std::string> models = options->models;
    if (models.empty())
      models = name == "ttft" ? std::vector<std::string>{kDefaultModel} : pulled_models();
    const bool has_default = std::filesystem::exists(model_path(kDefaultScorer));
    if (name == "ttft" && options->scorer.empty() && has_default) options->scorer = kDefaultScorer;
    run(session, *options, models, measure);
  });
}

}  // namespace

void add_bench_load(CLI::App& bench, Session& session);
void add_bench_trace(CLI::App& bench, Session& session);

void add_bench(CLI::App& app, Session& session) {
  CLI::App* sub = app.add_subcommand(
      "bench", "Measure: ratios inside one run, both sides interleaved, medians");
  sub->require_subcommand(1);
  add_measurement(*sub, session, "prefill", "Prefill against libllama", bench_prefill);
  add_measurement(*sub, session, "decode", "Decode steps against libllama", bench_decode);
  add_measurement(
      *sub, session, "ttft",
      "Time to first token of reuse policies against full prefill, loading, indexing, memory",
      ttft_in_scratch_folder);
  add_bench_trace(*sub, session);
  add_bench_load(*sub, session);
}

}  // namespace tessera
