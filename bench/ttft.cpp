#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <numeric>

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

class TtftBench {
 public:
  explicit TtftBench(const BenchOptions& o)
      : o_(o),
        model_(Model::load(o.model_path, o.load)),
        tokenizer_(o.model_path),
        ram_and_disk_(open_store(true)),
        disk_only_(open_store(false)) {
    EngineOptions options;
    options.n_threads = o.n_threads;
    options.model_digest = "bench " + o.model_name;
    options.name_space = "bench";
    engine_ = std::make_unique<Engine>(model_, tokenizer_, ram_and_disk_.get(), options);
    disk_engine_ = std::make_unique<Engine>(model_, tokenizer_, disk_only_.get(), options);
  }

  std::vector<BenchResult> run() {
    for (const Workload& w : kWorkloads) measure(w);
    measure_indexing();
    const double over = (static_cast<double>(peak_bytes()) -
                         static_cast<double>(model_->weight_bytes() + kv_in_use_ +
                                             ram_and_disk_->tiers().front()->stats().bytes)) /
                        1e6;
    add("peak memory beyond weights, working KV and RAM tier", over, "MB", 300, true);
    return std::move(results_);
  }

 private:
  std::unique_ptr<ChunkStore> open_store(bool with_ram) const {
    std::vector<std::unique_ptr<Tier>> tiers;
    if (with_ram) tiers.push_back(make_tier("ram", {.dir = {}, .limit_bytes = uint64_t{1} << 30}));
    tiers.push_back(make_tier("disk", {.dir = o_.kv_dir, .limit_bytes = 0}));
    return std::make_unique<ChunkStore>(std::move(tiers));
  }

  void add(std::string_view name, double value, std::string unit,
           std::optional<double> target = std::nullopt, bool at_most = false) {
    results_.push_back(
        {fmt::format("{} {}", o_.model_name, name), value, std::move(unit), target, at_most});
  }

  Request request_for(const Workload& w, const std::string& policy) const {
    Request r;
    r.passages = passages_from(o_.text, w);
    r.question = "What do these passages say about the matter?";
    r.policy = policy;
    r.policy_options.recompute_ratio = o_.ratio;
    return r;
  }

  void measure(const Workload& w) {
    const Request full = request_for(w, "full"), epic = request_for(w, "epic");
    ChunkBuilder builder = engine_->builder();
    const Anchor anchor = engine_->anchor(epic.anchor);
    builder.build_preamble(engine_->prompts().preamble_ids(), o_.stop);
    for (const PassageText& p : epic.passages)
      builder.build(anchor, engine_->prompts().chunk_ids(p.title, p.text), o_.stop);

    double n = 0, rows = 0;
    std::vector<double> load_ram, load_disk, ttft_full, ttft_epic, ratios;
    std::vector<Variant> v = {
        {"full", [&] { ttft_full.push_back(ttft(*engine_, full)); }, {}},
        {"epic",
         [&] {
           Prefilled p = engine_->prefill(epic, o_.stop);
           engine_->generate(one_token(epic), p, {});
           ttft_epic.push_back(p.timings.ttft_ms());
           load_ram.push_back(p.timings.load_ms);
           n = static_cast<double>(p.prompt.ids.size());
           rows = static_cast<double>(p.plan.rows.size());
         },
         {}},
        {"epic, disk",
         [&] { load_disk.push_back(disk_engine_->prefill(epic, o_.stop).timings.load_ms); },
         {}}};
    run_interleaved(v, o_);
    for (size_t i = 1; i < ttft_full.size(); ++i) ratios.push_back(ttft_full[i] / ttft_epic[i]);
    const auto counted = [](const std::vector<double>& all) {
      return median({all.begin() + 1, all.end()});
    };  // less the first round
    const double full_ms = counted(ttft_full);
    add(fmt::format("ttft {} prompt tokens", w.name), n, "tokens");
    add(fmt::format("ttft {} rows computed by epic", w.name), rows, "rows");
    add(fmt::format("ttft {} full", w.name), full_ms, "ms");
    add(fmt::format("ttft {} epic", w.name), counted(ttft_epic), "ms");
    add(fmt::format("ttft {} ratio full/epic", w.name), median(ratios), "x", 0.95 * n / rows);
    add(fmt::format("ttft {} load and rotate from RAM not hidden by tokenising, share of full",
                    w.name),
        100 * counted(load_ram) / full_ms, "%", 0.3, true);
    add(fmt::format(
            "ttft {} load and rotate from a warm file not hidden by tokenising, share of full",
            w.name),
        100 * counted(load_disk) / full_ms, "%", 1.0, true);
    kv_in_use_ = std::max(
        kv_in_use_, 2 * static_cast<uint64_t>(n) *
                        KvChunk::payload_bytes(model_->config().kv_geometry(), 1));  // two engines
  }

  static Request one_token(Request r) {
    r.max_tokens = 1;
    return r;
  }

  double ttft(Engine& engine, const Request& request) {
    Prefilled p = engine.prefill(request, o_.stop);
    engine.generate(one_token(request), p, {});
    return p.timings.ttft_ms();
  }

  // Rows a second of indexing against those of a plain prefill of 1024 rows.
  void measure_indexing() {
    const Request r = request_for(kWorkloads[1], "epic");
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
    std::vector<Variant> v = {
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
             ram_and_disk_->erase(
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
  std::shared_ptr<const Model> model_;
  Tokenizer tokenizer_;
  std::unique_ptr<ChunkStore> ram_and_disk_, disk_only_;
  std::unique_ptr<Engine> engine_, disk_engine_;
  uint64_t kv_in_use_ = 0;
  std::vector<BenchResult> results_;
};

}  // namespace

std::vector<BenchResult> bench_ttft(const BenchOptions& options) {
  return TtftBench(options).run();
}

}  // namespace tessera
