#include <fmt/format.h>

#include <memory>
#include <numeric>

#include "base/error.h"
#include "bench/llama_peer.h"
#include "bench/measure.h"
#include "eval/metrics.h"

namespace tessera {
namespace {

// Targets of DESIGN.md section 12 against libllama as its users run it.
std::optional<double> default_prefill_target(const std::string& model) {
  if (model == "smollm2-135m") return 1.7;
  if (model == "qwen2.5-coder-0.5b" || model == "qwen2.5-coder-1.5b") return 1.2;
  return std::nullopt;
}

std::vector<int32_t> tokens_of(const BenchOptions& o, int32_t n) {
  const Tokenizer tokenizer(o.model_path);
  std::vector<int32_t> ids = tokenizer.encode(o.text, ControlTokens::kAsText);
  if (ids.empty()) throw Error(ErrorCode::kInvalidRequest, "bench - has no text to measure on");
  while (ids.size() < static_cast<size_t>(n)) ids.insert(ids.end(), ids.begin(), ids.end());
  ids.resize(static_cast<size_t>(n));
  return ids;
}

// One decoder with a KV of its own.
class Ours {
 public:
  Ours(const BenchOptions& o, bool keep_file_types, int32_t n_slots) {
    LoadOptions load = o.load;
    load.keep_file_types = keep_file_types;
    model_ = Model::load(o.model_path, load);
    decoder_ = std::make_unique<Decoder>(model_, o.n_threads);
    kv_ = std::make_unique<WorkingKv>(model_->config(), n_slots);
  }

  void prefill(const std::vector<int32_t>& ids) {
    std::vector<int32_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    StepOptions options;
    options.logit_rows = {static_cast<int32_t>(ids.size()) - 1};
    kv_->clear();
    decoder_->prefill({kv_.get(), ids, positions}, options);
  }

  void decode(int32_t token, int32_t position) {
    StepOptions options;
    options.kernels = KernelClass::kDecode;
    options.logit_rows = {0};
    const SequenceRows row = {kv_.get(), {&token, 1}, {&position, 1}};
    decoder_->step({&row, 1}, options);
  }

  // Share of a prefill's time outside matrix products and attention.
  double other_share(const std::vector<int32_t>& ids) {
    std::vector<int32_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    kv_->clear();
    return decoder_->share_outside_kernels({kv_.get(), ids, positions});
  }

  const Model& model() const { return *model_; }

 private:
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<WorkingKv> kv_;
};

// What is measured of each side: a prefill of `ids`, or decode steps behind it.
struct Job {
  std::vector<int32_t> ids;
  int32_t decode_steps = 0;
};

void run_ours(Ours& ours, const Job& job) {
  if (job.decode_steps == 0) return ours.prefill(job.ids);
  for (int32_t i = 0; i < job.decode_steps; ++i)
    ours.decode(job.ids[static_cast<size_t>(i) % job.ids.size()],
                static_cast<int32_t>(job.ids.size()) + i);
}

void run_peer(LlamaPeer& peer, const Job& job) {
  if (job.decode_steps == 0) {
    peer.last_logits(job.ids);
    return;
  }
  peer.truncate(static_cast<int32_t>(job.ids.size()));
  for (int32_t i = 0; i < job.decode_steps; ++i)
    peer.decode(job.ids[static_cast<size_t>(i) % job.ids.size()]);
}

std::vector<BenchResult> against_libllama(const BenchOptions& o, const Job& job,
                                          std::string_view what) {
  const auto n_slots = static_cast<int32_t>(job.ids.size()) + job.decode_steps + 1;
  const int32_t n_threads = o.n_threads > 0 ? o.n_threads : available_threads();
  Ours same(o, true, n_slots), converted(o, false, n_slots);
  LlamaPeer plain(o.model_path, false, n_threads, 512, n_slots + 512),
      repacked(o.model_path, true, n_threads, 512, n_slots + 512);
  if (job.decode_steps > 0) {
    for (Ours* ours : {&same, &converted}) ours->prefill(job.ids);
    for (LlamaPeer* peer : {&plain, &repacked}) peer->last_logits(job.ids);
  }
  std::vector<Contestant> v = {
      {"ours, file types", [&] { run_ours(same, job); }, {}},
      {"libllama, plain", [&] { run_peer(plain, job); }, {}},
      {"ours, default", [&] { run_ours(converted, job); }, {}},
      {"libllama, repacked (its default)", [&] { run_peer(repacked, job); }, {}}};
  run_interleaved(v, o);
  const Contestant& best = median(v[1].ms) <= median(v[3].ms) ? v[1] : v[3];
  const double n = job.decode_steps > 0 ? job.decode_steps : static_cast<double>(job.ids.size());
  std::vector<BenchResult> out;
  out.reserve(v.size() + 3);
  for (const Contestant& variant : v) {
    out.push_back({fmt::format("{} {} {}", o.model_name, what, variant.name),
                   1000.0 * n / median(variant.ms), "tokens/s", std::nullopt});
  }
  out.push_back({fmt::format("{} {} ratio, same types, libllama's best", o.model_name, what),
                 median_ratio(best, v[0]), "x", 0.97});
  const std::optional<double> target =
      job.decode_steps > 0 ? std::nullopt : default_prefill_target(o.model_name);
  out.push_back({fmt::format("{} {} ratio, both defaults", o.model_name, what),
                 median_ratio(v[3], v[2]), "x", target});
  if (job.decode_steps == 0) {
    out.push_back(
        {fmt::format("{} {} share outside matrix products and attention", o.model_name, what),
         100 * converted.other_share(job.ids), "%", std::nullopt});
  }
  return out;
}

}  // namespace

std::vector<BenchResult> bench_prefill(const BenchOptions& o) {
  const int32_t n = o.n_tokens > 0 ? o.n_tokens : 1024;
  return against_libllama(o, {tokens_of(o, n), 0}, fmt::format("prefill {}", n));
}

std::vector<BenchResult> bench_decode(const BenchOptions& o) {
  const int32_t steps = o.n_tokens > 0 ? o.n_tokens : 64;
  return against_libllama(o, {tokens_of(o, 256), steps}, "decode");
}

}  // namespace tessera
