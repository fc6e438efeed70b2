#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "bench/measure.h"
#include "eval/metrics.h"

namespace tessera {
namespace {

struct Workload {
  std::string name;
  int32_t n_chunks = 0;
  int32_t chunk_bytes = 0;
};

// About 1.4k and 4k prompt tokens: short retrieved paragraphs, and chunks of some 550 tokens.
constexpr int32_t kBytesPerToken = 4;
const Workload kWorkloads[] = {{"1.4k", 10, 135 * kBytesPerToken}, {"4k", 7, 590 * kBytesPerToken}};

// Pieces of the text, cut at spaces; it is gone through again from another place when it is too
// short.
std::vector<PassageText> passages_from(const std::string& text, const Workload& w) {
  std::vector<PassageText> out;
  size_t at = 0;
  for (int32_t i = 0; i < w.n_chunks; ++i) {
    if (at + static_cast<size_t>(w.chunk_bytes) + 64 > text.size()) at = static_cast<size_t>(i) * 7;
    at = text.find(' ', at) + 1;
    size_t end = text.find(' ', at + static_cast<size_t>(w.chunk_bytes));
    if (at == 0 || end == std::string::npos)
      throw Error(ErrorCode::kInvalidRequest,
                  "bench ttft - the text is too short to cut passages from");
    out.push_back({fmt::format("Passage {}", i + 1), text.substr(at, end - at)});
    at = end;
  }
  return out;
}

uint64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

// A model with what an engine needs to know of it.
struct Loaded {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  EngineOptions options;

  Loaded(const std::filesystem::path& path, const LoadOptions& load, int32_t n_threads)
      : model(Model::load(path, load)), tokenizer(std::make_unique<Tokenizer>(path)) {
    options.n_threads = n_threads;
    options.model_digest = path.string();
    options.name_space = "bench";
  }
};

// What one policy took in each round, the uncounted first one included.
struct Run {
  std::string name;
  std::string policy;
  double target_share = 0;  // of the ratio that its rows alone would give
  bool online_scores = false;
  std::vector<Timings> timings = {};
  double rows = 0;  // its probe's and its scorer's included
  double probe_rows = 0;
};

class TtftBench {
 public:
  explicit TtftBench(const BenchOptions& o)
      : o_(o), target_(o.model_path, o.load, o.n_threads), store_(open_store()) {
    engine_ =
        std::make_unique<Engine>(target_.model, *target_.tokenizer, store_.get(), target_.options);
  }

  std::vector<BenchResult> run() {
    measure_memory();
    if (!o_.scorer_path.empty()) {
      beside_.emplace(o_.scorer_path, o_.load, o_.n_threads);
      scores_ = std::make_unique<ScoreStore>(o_.kv_dir / "scores.db");
      scorer_ = std::make_unique<Scorer>(beside_->model, *beside_->tokenizer, nullptr,
                                         scores_.get(), beside_->options);
      engine_ = std::make_unique<Engine>(target_.model, *target_.tokenizer, store_.get(),
                                         target_.options, scorer_.get());
    }
    measure_rows();
    for (const Workload& w : kWorkloads) measure(w);
    measure_indexing();
    return std::move(results_);
  }

 private:
  std::unique_ptr<ChunkStore> open_store() const {
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(make_tier("ram", {.dir = {}, .limit_bytes = uint64_t{1} << 30}));
    tiers.push_back(make_tier("disk", {.dir = o_.kv_dir, .limit_bytes = 0}));
    return std::make_unique<ChunkStore>(std::move(tiers));
  }

  // As after a restart, with the files still in the page cache.
  void forget_ram() {
    Tier& ram = *store_->tiers().front();
    std::vector<ChunkKey> keys;
    ram.for_each([&](const TierEntry& entry) {
      keys.push_back(entry.key);
      return true;
    });
    for (const ChunkKey& key : keys) ram.erase(key);
  }

  void add(std::string_view name, double value, std::string unit,
           std::optional<double> target = std::nullopt, bool at_most = false) {
    results_.push_back(
        {fmt::format("{} {}", o_.model_name, name), value, std::move(unit), target, at_most});
  }

  Request request_for(const Workload& w) const {
    Request r;
    r.passages = passages_from(o_.text, w);
    r.question = "What do these passages say about the matter?";
    r.max_tokens = 1;
    r.policy_options.recompute_ratio = o_.ratio;
    return r;
  }

  void build(const Request& request) {
    ChunkBuilder builder = engine_->builder();
    builder.build_preamble(engine_->prompts().preamble_ids(), o_.stop);
    for (const PassageText& p : request.passages)
      builder.build(engine_->anchor(request.anchor), engine_->prompts().chunk_ids(p.title, p.text),
                    o_.stop);
  }

  Prefilled answer(const Request& request) {
    Prefilled p = engine_->prefill(request, o_.stop);
    engine_->generate(request, p, {});
    return p;
  }

  // What indexing and answering 4k tokens take at most, with nothing else in the process.
  void measure_memory() {
    Request request = request_for(kWorkloads[1]);
    build(request);
    size_t n_tokens = 0;
    for (const char* policy : {"full", "epic", "query_aware"}) {
      request.policy = policy;
      n_tokens = answer(request).prompt.ids.size();
    }
    const uint64_t known =
        target_.model->weight_bytes() + store_->tiers().front()->stats().bytes +
        n_tokens * KvChunk::payload_bytes(target_.model->config().kv_geometry(), 1);
    add("peak memory beyond weights, working KV and RAM tier",
        (static_cast<double>(peak_bytes()) - static_cast<double>(known)) / 1e6, "MB", 300, true);
  }

  // Of a scorer's row as of one of the target's: what a row through all layers takes.
  void measure_rows() {
    if (scorer_ == nullptr) return;
    constexpr int32_t kRows = 512;
    std::vector<int32_t> ids(kRows), positions(kRows);
    for (int32_t i = 0; i < kRows; ++i) ids[static_cast<size_t>(i)] = 100 + i;
    std::iota(positions.begin(), positions.end(), 0);
    Decoder beside(beside_->model, o_.n_threads);
    WorkingKv beside_kv(beside_->model->config(), kRows);
    const auto prefill = [&](Decoder& decoder, WorkingKv& kv) {
      return [&] { decoder.prefill({&kv, ids, positions}, {}, o_.stop); };
    };
    std::vector<Contestant> v = {{"target", prefill(engine_->decoder(), engine_->kv()), {}},
                                 {"scorer", prefill(beside, beside_kv), {}}};
    run_interleaved(v, o_);
    scorer_row_ = 1.0 / median_ratio(v[0], v[1]);
    add("cost of a scorer's row", scorer_row_, "rows");
  }

  // Median over the counted rounds.
  static double typical(const Run& run, const std::function<double(const Timings&)>& of) {
    std::vector<double> values;
    for (size_t i = 1; i < run.timings.size(); ++i) values.push_back(of(run.timings[i]));
    return median(std::move(values));
  }

  // DESIGN.md section 12: what is not rows may cost 5%, and 15% where a probe runs.
  std::vector<Run> runs() const {
    std::vector<Run> out = {{"full", "full"},
                            {"epic", "epic", 0.95},
                            {"cacheblend", "cacheblend", 0.85},
                            {"query_aware", "query_aware", 0.85},
                            {"adacache", "adacache", 0.85}};
    if (scorer_ == nullptr) return out;
    out.push_back({"speccache, stored scores", "speccache", 0.95});
    out.push_back({"speccache, online scores", "speccache", 0.85, true});
    return out;
  }

  void measure(const Workload& w) {
    Request request = request_for(w);
    build(request);
    std::vector<Run> all = runs();
    double n = 0;
    std::vector<Contestant> v;
    for (Run& run : all) {
      v.push_back({run.name,
                   [&] {
                     request.policy = run.policy;
                     request.policy_options.online_scores = run.online_scores;
                     const Prefilled p = answer(request);
                     run.timings.push_back(p.timings);
                     run.probe_rows = p.probe_rows + p.scorer_rows * scorer_row_;
                     run.rows = static_cast<double>(p.plan.rows.size()) + run.probe_rows;
                     n = static_cast<double>(p.prompt.ids.size());
                   },
                   {}});
    }
    Run from_disk = {"epic, disk", "epic"};
    v.push_back({from_disk.name,
                 [&] {
                   forget_ram();
                   request.policy = from_disk.policy;
                   from_disk.timings.push_back(engine_->prefill(request, o_.stop).timings);
                 },
                 {}});
    run_interleaved(v, o_);
    report(w, all, from_disk, n);
    measure_confidence(w, typical(all.front(), &Timings::ttft_ms) / n);
  }

  // What adaptive context adds to a round: logits of four layers in place of one, and their
  // reading. Held against the full prefill of the one passage that a round adds.
  void measure_confidence(const Workload& w, double row_ms) {
    Request request = request_for(w);
    request.policy = "epic";
    const Prefilled p = engine_->prefill(request, o_.stop);
    const ModelConfig& config = engine_->decoder().config();
    const TokenRange query = p.prompt.segments.back().range;
    std::vector<int32_t> positions(static_cast<size_t>(query.size()));
    std::iota(positions.begin(), positions.end(), query.begin);
    const std::span<const int32_t> ids =
        std::span(p.prompt.ids).subspan(static_cast<size_t>(query.begin));
    StepOptions options;
    options.logit_rows = {query.size() - 1};
    const auto step = [&](int32_t n_layers) {
      options.logit_layers.resize(static_cast<size_t>(n_layers));
      std::iota(options.logit_layers.begin(), options.logit_layers.end(),
                config.n_layers - n_layers);
      return engine_->decoder().prefill({&engine_->kv(), ids, positions}, options, o_.stop).logits;
    };
    const int32_t n_layers = certainty_layers({});
    std::vector<Contestant> v = {
        {"question", [&] { step(1); }, {}},
        {"question and confidence", [&] { certainty_of(step(n_layers), config.n_vocab); }, {}}};
    run_interleaved(v, o_);
    const double passage_ms = row_ms * static_cast<double>(p.prompt.segments[1].range.size());
    const double ms = median(v[1].ms) - median(v[0].ms);
    add(fmt::format("ttft {} confidence of a round", w.name), ms, "ms");
    add(fmt::format("ttft {} confidence of a round, share of full prefill of its passage", w.name),
        100 * ms / passage_ms, "%", 1, true);
  }

  void report(const Workload& w, const std::vector<Run>& all, const Run& from_disk, double n) {
    const Run& full = all.front();
    const double full_ms = typical(full, &Timings::ttft_ms);
    add(fmt::format("ttft {} prompt tokens", w.name), n, "tokens");
    add(fmt::format("ttft {} full", w.name), full_ms, "ms");
    for (size_t i = 1; i < all.size(); ++i) report_policy(w, all[i], full, n);
    const auto load = [](const Timings& t) { return t.load_ms; };
    add(fmt::format("ttft {} load and rotate from RAM not hidden by tokenising, share of full",
                    w.name),
        100 * typical(all[1], load) / full_ms, "%", 0.3, true);
    add(fmt::format(
            "ttft {} load and rotate from a warm file not hidden by tokenising, share of full",
            w.name),
        100 * typical(from_disk, load) / full_ms, "%", 1.0, true);
  }

  void report_policy(const Workload& w, const Run& run, const Run& full, double n) {
    const std::string name = fmt::format("ttft {} {}", w.name, run.name);
    std::vector<double> ratios;
    for (size_t round = 1; round < run.timings.size(); ++round)
      ratios.push_back(full.timings[round].ttft_ms() / run.timings[round].ttft_ms());
    const double selecting_ms =
        typical(run, [](const Timings& t) { return t.score_ms + t.select_ms; });
    add(name, typical(run, &Timings::ttft_ms), "ms");
    if (run.policy == "speccache" && !run.online_scores) {
      add(name + " of which scores and selecting", selecting_ms, "ms", 10, true);
    } else if (run.policy == "query_aware") {
      // DESIGN.md section 12: the probe may take 1.2 times what its rows are of a full prefill.
      const double share_ms = run.probe_rows / n * typical(full, &Timings::ttft_ms);
      add(name + " of which the probe and selecting", selecting_ms, "ms", 1.2 * share_ms, true);
    } else {
      add(name + " of which scores, probe and selecting", selecting_ms, "ms");
    }
    if (run.online_scores) {
      add(name + " loading hidden by the scorer and tokenising",
          typical(run, [](const Timings& t) { return t.load_hidden_ms; }), "ms");
    }
    add(name + " of which prefill", typical(run, [](const Timings& t) { return t.prefill_ms; }),
        "ms");
    add(name + " rows, those of its probe and scorer included", run.rows, "rows");
    add(name + " ratio to full", median(std::move(ratios)), "x", run.target_share * n / run.rows);
  }

  // Rows a second of indexing against those of a plain prefill of 1024 rows.
  void measure_indexing() {
    const Request r = request_for(kWorkloads[1]);
    const Anchor anchor = engine_->anchor(r.anchor);
    std::vector<std::vector<int32_t>> chunks;
    chunks.reserve(r.passages.size());
    for (const PassageText& p : r.passages)
      chunks.push_back(engine_->prompts().chunk_ids(p.title, p.text));
    std::vector<int32_t> ids, positions(1024);
    while (ids.size() < positions.size())
      ids.insert(ids.end(), chunks[ids.size() % chunks.size()].begin(),
                 chunks[ids.size() % chunks.size()].end());
    ids.resize(positions.size());
    std::iota(positions.begin(), positions.end(), 0);
    int64_t rows = 0;
    std::vector<Contestant> v = {
        {"prefill",
         [&] {
           engine_->kv().clear();
           StepOptions options;
           options.logit_rows = {1023};
           engine_->decoder().prefill({&engine_->kv(), ids, positions}, options, o_.stop);
         },
         {}},
        {"index",
         [&] {
           for (const std::vector<int32_t>& c : chunks)
             store_->erase(
                 key_of(engine_->domain(), {Match::kIndependent, anchor.kind, anchor.ids}, c));
           ChunkBuilder builder = engine_->builder();
           for (const std::vector<int32_t>& c : chunks) builder.build(anchor, c, o_.stop);
           rows = builder.rows_computed();
         },
         {}}};
    run_interleaved(v, o_);
    add("indexing", 1000.0 * static_cast<double>(rows) / median(v[1].ms), "rows/s");
    add("indexing speed against a prefill of 1024 rows",
        median_ratio(v[0], v[1]) * static_cast<double>(rows) / 1024.0, "x", 0.95);
  }

  const BenchOptions& o_;
  Loaded target_;
  std::optional<Loaded> beside_;
  std::unique_ptr<ChunkStore> store_;
  std::unique_ptr<ScoreStore> scores_;
  std::unique_ptr<Scorer> scorer_;
  std::unique_ptr<Engine> engine_;
  double scorer_row_ = 0;
  std::vector<BenchResult> results_;
};

}  // namespace

std::vector<BenchResult> bench_ttft(const BenchOptions& options) {
  return TtftBench(options).run();
}

}  // namespace tessera
