// `tessera bench trace`: requests one after the other over a store that fills, ages and is bounded,
// under several configurations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "bench/trace.h"
#include "bench/trace_results.h"
#include "catalog/catalog.h"
#include "model/model.h"
#include "reuse/policy.h"
#include "tessera/bench_output.h"
#include "tessera/build_info.h"
#include "tessera/command.h"
#include "tessera/model_profile.h"
#include "tessera/policy_options.h"
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

constexpr std::string_view kAdaCache = "adacache";

const std::map<std::string, StoreMode> kStoreModes = {
    {"warm", StoreMode::kWarm}, {"filling", StoreMode::kFilling}, {"cold", StoreMode::kCold}};

struct Options {
  std::string model = kDefaultModel;
  LoadingOptions loading;
  std::vector<std::string> files;
  std::string corpus;
  std::vector<std::string> configs;  // empty: those below
  std::string anchor = "leadin";
  std::string store = "warm";
  std::string warm_dir;
  std::string out;
  PolicyOptions policy_options;
  GivenOptions given;
  bool has_ram_tier = false;  // it was given
  TraceOptions trace;
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

// What a configuration reads of the settings.
ordered_json settings_json(const TraceConfig& config, const AdaptiveContext& adaptive) {
  ordered_json out = {{"name", config.name}};
  if (reads_ratio(config.policy, config.options)) out["ratio"] = config.options.recompute_ratio;
  if (config.policy == kAdaCache) out["soft_ratio"] = config.options.alpha();
  if (config.is_adaptive) {
    out["step"] = adaptive.step;
    out["lambda"] = adaptive.confidence.lambda;
    out["kl_scale"] = adaptive.confidence.kl_scale;
    out["tau"] = adaptive.threshold;
  }
  return out;
}

ordered_json header_of(const Options& o) {
  const BuildInfo build = build_info();
  const TraceOptions& t = o.trace;
  ordered_json configs = ordered_json::array();
  for (const TraceConfig& c : t.configs) {
    ordered_json& config = configs.emplace_back(settings_json(c, t.adaptive));
    config["policy_options"] = policy_options_json(c.options);
  }
  return {{"kind", "run"},
          {"commit", build.commit},
          {"cpu", build.cpu},
          {"model", o.model},
          {"model_digest", t.model_digest},
          {"files", o.files},
          {"corpus", o.corpus},
          {"configs", std::move(configs)},
          {"requests", t.n_requests},
          {"top_k", t.top_k},
          {"seed", t.stream.seed},
          {"skew", t.stream.skew},
          {"articles", t.stream.n_articles},
          {"novel", t.is_novel},
          {"long", t.n_long_requests},
          {"generations", t.n_generations},
          {"store", o.store},
          {"store_limit_bytes", t.store_limit_bytes},
          {"store_share", t.store_share},
          {"ram_limit_bytes", t.ram_limit_bytes},
          {"threads", t.n_threads > 0 ? t.n_threads : available_threads()},
          {"layout", o.loading.layout},
          {"keep_file_types", o.loading.keep_file_types},
          {"ctx", t.n_ctx},
          {"sink_layer", t.sink_layer},
          {"anchor", o.anchor},
          {"max_tokens", t.max_tokens}};
}

void note_settings(const Session& session, const TraceOptions& t) {
  for (const TraceConfig& config : t.configs) {
    std::vector<std::string> parts;
    const ordered_json settings = settings_json(config, t.adaptive);
    for (const auto& [name, value] : settings.items()) {
      if (value.is_number()) parts.push_back(fmt::format("{} {:.4g}", name, value.get<double>()));
    }
    if (!parts.empty()) session.note(fmt::format("{}: {}", config.name, fmt::join(parts, ", ")));
  }
}

// What was tuned for this model holds where nothing was given, and what was not is said.
void apply_profile(const Session& session, Options& o) {
  TraceOptions& t = o.trace;
  const ModelProfile profile = read_profile(t.model_digest);
  t.sink_layer = profile.sink_layer.value_or(t.sink_layer);
  apply(profile, o.given, t.adaptive);
  std::vector<PolicySetting> settings;
  for (TraceConfig& config : t.configs) {
    apply(profile, config.policy, o.given, config.options);
    settings.push_back({config.policy, config.options, config.is_adaptive});
  }
  for (const std::string& note : profile_notes(profile, o.given, settings, t.adaptive))
    session.note(note);
  note_settings(session, t);
}

void check_generations(const TraceOptions& t) {
  if (t.n_generations == 0) return;
  if (t.top_k.size() > 1 || t.n_long_requests > 0) {
    refuse(
        "bench trace - --generations is one run for one number of passages - leave out --long and "
        "name one --top-k");
  }
  if (t.mode != StoreMode::kWarm) {
    refuse(
        "bench trace - --generations starts from indexed passages, which only a warm store has - "
        "leave out --store");
  }
}

// A limit holds for RAM and disk together, so RAM has a part of it only where one was asked for.
void complete_store(Options& o) {
  TraceOptions& t = o.trace;
  if (t.store_limit_bytes > 0 && t.store_share > 0) {
    refuse("bench trace - --store-limit and --store-share both bound the store - give one of them");
  }
  if (t.is_novel && t.store_limit_bytes == 0 && t.store_share == 0) t.store_share = kNovelShare;
  const bool has_limit = t.store_limit_bytes > 0 || t.store_share > 0;
  if (has_limit && !o.has_ram_tier) t.ram_limit_bytes = 0;
}

void complete_stream(const Session& session, TraceOptions& t) {
  const std::set<int32_t> distinct(t.top_k.begin(), t.top_k.end());
  if (distinct.size() < t.top_k.size())
    refuse("bench trace - a number of passages is named twice - name each --top-k once");
  if (t.is_novel) {
    t.stream.n_distinct = 0;
  } else if (t.n_long_requests > t.n_requests) {
    t.stream.n_distinct = t.n_requests;
    session.note(
        "--long without --novel: behind the real run questions come again when all of their "
        "article were asked; the share of those is printed");
  }
}

// Slips are said before the model loads.
void complete(const Session& session, Options& o) {
  TraceOptions& t = o.trace;
  t.mode = kStoreModes.at(o.store);
  check_generations(t);
  complete_store(o);
  complete_stream(session, t);
  if (o.configs.empty()) o.configs = t.n_generations > 0 ? kGenerationConfigs : kConfigs;
  t.configs = trace_configs(o.configs, o.policy_options);
  for (const std::string& file : o.files) t.question_files.emplace_back(file);
  t.corpus_file = o.corpus;
  t.warm_dir = o.warm_dir;
  t.anchor = anchor_from_name(o.anchor).value_or(t.anchor);
  t.model_path = resolve_model(o.model);
  t.model_name = o.model;
  t.model_digest = model_digest(t.model_path);
  apply_profile(session, o);
  t.load = o.loading.load_options();
  t.n_threads = o.loading.n_threads;
  t.note = [&session](std::string_view line) { session.note(line); };
  t.stop = session.stop_token();
}

void run(const Session& session, Options o) {
  complete(session, o);
  // Below the cache, whose disk is the one to measure.
  make_private_dir(cache_dir());
  const ScratchFolder folder(cache_dir());
  o.trace.work_dir = folder.path();
  std::unique_ptr<RowFile> rows;
  if (!o.out.empty()) {
    rows = std::make_unique<RowFile>(o.out, header_of(o));
    o.trace.on_row = [&rows](const ordered_json& row) { rows->add(row); };
  }
  std::vector<BenchResult> all;  // under --json stdout carries one object
  o.trace.on_report = [&](const TraceReport& report) {
    if (!session.json()) return session.print(trace_text(report));
    const std::vector<BenchResult> results = results_of(report);
    all.insert(all.end(), results.begin(), results.end());
  };
  const bool is_complete = bench_trace(o.trace);
  if (session.json())
    print_bench_results(session, all, std::vector{o.trace.stream.seed}, header_of(o));
  if (!is_complete) session.note("interrupted: the results are of the requests that were ready");
}

void add_stream_options(CLI::App& app, Options& o) {
  TraceOptions& t = o.trace;
  app.add_option("--file", o.files,
                 "JSONL file of questions with their passages, as docs/EVAL.md shows; may be "
                 "repeated")
      ->required();
  app.add_option("--corpus", o.corpus,
                 "JSONL file of more passages to retrieve from: {\"title\", \"text\"} a line");
  app.add_option("--requests", t.n_requests, "Requests that are computed")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--top-k", t.top_k, "Passages to retrieve; several, as in 2,4,6,8: a run for each")
      ->delimiter(',')
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  app.add_option("--seed", t.stream.seed, "Of the stream and of the intervals")
      ->capture_default_str();
  app.add_option("--skew", t.stream.skew, "s of Zipf's law over the articles; 0: all alike")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--articles", t.stream.n_articles, "Articles, the likeliest ones; 0: all")
      ->check(CLI::NonNegativeNumber)
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

void add_store_options(CLI::App& app, Options& o) {
  app.add_option("--store", o.store,
                 "warm: every passage is indexed before; filling: empty at first; after a request "
                 "both store what the policy publishes and index what was missed; cold: empty, and "
                 "stays so")
      ->check(CLI::IsMember({"warm", "filling", "cold"}))
      ->capture_default_str();
  app.add_option("--store-limit", o.trace.store_limit_bytes,
                 "Bytes of KV that the store of each configuration holds, in memory and on disk "
                 "together, as in 200MB; 0: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--store-share", o.trace.store_share,
                 "The same as a share of the KV of the whole corpus; 0: no limit")
      ->check(CLI::Range(0.0, 100.0));
  o.trace.ram_limit_bytes = uint64_t{256} << 20;
  app.add_option("--ram-tier", o.trace.ram_limit_bytes,
                 "Bytes of KV that each configuration keeps in memory, as in 256MB; 0: none. Where "
                 "the store has a limit they are a part of it, and by default there are none")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--warm-dir", o.warm_dir,
                 "Folder that keeps the KV of the corpus for later runs; default: none does");
}

void add_choice_options(CLI::App& app, Options& o) {
  TraceOptions& t = o.trace;
  app.add_option(
         "--configs", o.configs,
         "Policies; with +aca behind the name adaptive context on top (the paper's adaptive "
         "context augmentation), with +paper KV of approximate reuse taken for exact. Full "
         "prefill always runs; default: all that AdaCache's paper compares")
      ->delimiter(',');
  add_ratio_option(app, o.policy_options);
  add_policy_options(app, o.policy_options);
  add_adaptive_options(app, t.adaptive);
  app.add_option("--anchor", o.anchor, "What stood before the chunks when they were indexed")
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}))
      ->capture_default_str();
  app.add_option("--max-tokens", t.max_tokens, "Longest answer")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

}  // namespace

void add_bench_trace(CLI::App& bench, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand(
      "trace",
      "A stream of questions over one corpus and stores that live as long: hits, times, quality");
  sub->add_option("-m,--model", options->model, "Name of the catalogue, or path of a GGUF file")
      ->capture_default_str();
  add_stream_options(*sub, *options);
  add_choice_options(*sub, *options);
  add_store_options(*sub, *options);
  options->loading.add_to(*sub);
  options->loading.add_keep_file_types_to(*sub);
  options->trace.n_ctx = 4096;
  sub->add_option("--ctx", options->trace.n_ctx,
                  "Tokens of prompt and answer together, of each configuration's own working KV")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  sub->add_option("--out", options->out,
                  "Folder for trace.jsonl, with a row for each request and configuration; one "
                  "that holds rows already is refused");
  sub->callback([options, sub, &session] {
    options->given = given_options(*sub);
    options->has_ram_tier = sub->get_option("--ram-tier")->count() > 0;
    run(session, *options);
  });
}

}  // namespace tessera
