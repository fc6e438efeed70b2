#pragma once
// What tests of the engine share: a tiny model loaded once per process, a store in a folder of its
// own, and seeded requests made of the tiny vocabulary's words.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "store/store_testing.h"
#include "support/compare.h"
#include "support/threads.h"
#include "support/tiny_gguf.h"

namespace tessera {

// f16 weights, so that a K that is rounded before its rotation instead of after it costs little
// (2e-2 in O2). Quantised weights round activations to 8 bits, where one half-precision step can
// tip a whole step of 1/127.
inline constexpr float kF16Bound = 2e-2F;

struct TinyModel {
  explicit TinyModel(const TinySpec& spec)
      : file(spec),
        model(Model::load(file.path(), {.keep_file_types = true,
                                        .layout = WeightLayout::kPlain,
                                        .n_threads = kTestThreads,
                                        .profile_dir = {}})),
        tokenizer(file.path()) {}
  TinyModelFile file;
  std::shared_ptr<const Model> model;
  Tokenizer tokenizer;
};

inline const TinyModel& tiny_model(const std::string& arch) {
  static std::map<std::string, std::unique_ptr<TinyModel>> loaded;
  std::unique_ptr<TinyModel>& model = loaded[arch];
  if (model == nullptr) model = std::make_unique<TinyModel>(TinySpec{.arch = arch});
  return *model;
}

// The scorer of a test's target: of another family, and of another kind of vocabulary where there
// is one.
inline const TinyModel& scorer_beside(const std::string& arch) {
  return tiny_model(arch == "qwen2" ? "gemma3" : "qwen2");
}

inline EngineOptions tiny_options() {
  EngineOptions options;
  options.n_threads = kTestThreads;
  options.model_digest = "tiny";
  options.leadin_tokens = 24;
  return options;
}

inline std::string words(size_t n, uint32_t seed) {
  static constexpr std::array<std::string_view, 16> kWords = {
      "the",    "river", "city", "people", "first", "one",   "two", "three",
      "number", "title", "text", "is",     "in",    "which", "was", "system"};
  std::mt19937 random(seed);
  std::string out;
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) out += ' ';
    out += kWords[random() % kWords.size()];
  }
  return out;
}

// One word for each letter of `order` decides the passage: "ABA" has the same one first and last.
inline std::vector<PassageText> passages(std::string_view order, size_t n_words = 40) {
  std::vector<PassageText> out;
  for (const char letter : order)
    out.push_back({"", words(n_words, static_cast<uint32_t>(letter))});
  return out;
}

inline Request request_for(std::string_view policy, std::vector<PassageText> texts,
                           double ratio = 0.15) {
  Request request;
  request.passages = std::move(texts);
  request.question = "which river is in the city";
  request.policy = policy;
  request.policy_options.recompute_ratio = ratio;
  request.max_tokens = 4;
  return request;
}

inline std::vector<std::string> names_of_policies() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) names.emplace_back(policy.name);
  return names;
}

// The policies that recompute what they loaded, as far as the ratio lets them.
inline std::vector<std::string> recomputing_policies() {
  const Segment chunk = {SegmentKind::kChunk, {0, 8}, Match::kIndependent};
  const Scores one_each = {std::vector<float>(8, 1.0F), {}};
  Scores covering = one_each;  // a scorer whose tokens are the target's
  for (int32_t at = 0; at < 8; ++at) covering.covers.push_back({at, at + 1});
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) {
    const std::unique_ptr<ReusePolicy> made = make_policy(policy.name, {.recompute_ratio = 1});
    const Scores& scores = is_of_scorer(made->evidence()) ? covering : one_each;
    if (!made->select({&chunk, 1}, scores).empty()) names.emplace_back(policy.name);
  }
  return names;
}

inline int32_t total_tokens(const Prompt& prompt) {
  return static_cast<int32_t>(prompt.ids.size());
}

class EngineRig {
 public:
  explicit EngineRig(const TinyModel& model, const EngineOptions& options = tiny_options())
      : model_(model), options_(options) {
    restart();
  }
  explicit EngineRig(const std::string& arch) : EngineRig(tiny_model(arch)) {}

  // As a new process would find it: RAM empty, the folder as it was left.
  void restart() { open(model_, options_, true); }
  void reopen(const TinyModel& model, const EngineOptions& options) { open(model, options, true); }
  void restart_without_ram() { open(model_, options_, false); }

  Engine& engine() { return *engine_; }
  Scorer& scorer() { return *scorer_; }
  Scorer& scorer_with_kv() { return *scorer_with_kv_; }
  ScoreStore& scores() { return *scores_; }
  ChunkStore& store() { return *store_; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::filesystem::path variants_file() const { return scores_folder_.path() / "variants.db"; }
  TierStats disk() { return store_->tiers().back()->stats(); }

  Prefilled prefill(const Request& request) { return engine_->prefill(request); }
  std::vector<float> logits(const Request& request) { return engine_->prefill(request).logits; }
  std::vector<float> full_logits(Request request) {
    request.policy = "full";
    return logits(request);
  }

  // What `tessera index` does: the preamble and every passage behind its anchor.
  void index(const std::vector<PassageText>& texts, AnchorKind kind) {
    ChunkBuilder builder = engine_->builder();
    builder.build_preamble(engine_->prompts().preamble_ids());
    for (const PassageText& p : texts)
      builder.build(engine_->anchor(kind), engine_->prompts().chunk_ids(p.title, p.text));
  }

  std::vector<std::filesystem::path> blobs() const {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder())) {
      if (entry.is_regular_file()) out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  void open(const TinyModel& model, const EngineOptions& options, bool has_ram) {
    engine_.reset();
    std::vector<std::unique_ptr<Tier>> tiers;
    if (has_ram) tiers.push_back(make_tier("ram", {}));
    tiers.push_back(make_tier("disk", {.dir = folder(), .limit_bytes = 0}));
    store_ = std::make_unique<ChunkStore>(std::move(tiers),
                                          std::make_unique<VariantIndex>(variants_file()));
    const TinyModel& small = scorer_beside(model.model->config().arch);
    EngineOptions beside = tiny_options();
    beside.model_digest = "tiny scorer";
    scores_ = std::make_unique<ScoreStore>(scores_folder_.path() / "scores.db");
    scorer_ =
        std::make_unique<Scorer>(small.model, small.tokenizer, nullptr, scores_.get(), beside);
    scorer_with_kv_ =
        std::make_unique<Scorer>(small.model, small.tokenizer, store_.get(), scores_.get(), beside);
    engine_ = std::make_unique<Engine>(model.model, model.tokenizer, store_.get(), options,
                                       scorer_.get());
  }

  const TinyModel& model_;
  EngineOptions options_;
  store_testing::ScratchDir folder_, scores_folder_;
  std::unique_ptr<ChunkStore> store_;
  std::unique_ptr<ScoreStore> scores_;
  std::unique_ptr<Scorer> scorer_, scorer_with_kv_;
  std::unique_ptr<Engine> engine_;
};

// How each chunk of the prompt was found, as one letter: x exact, s soft, i independent, - missed.
inline std::string matches_of(const Prefilled& prefilled) {
  std::string out;
  for (const Segment& s : prefilled.plan.segments) {
    if (s.kind != SegmentKind::kChunk) continue;
    out += s.match == Match::kExact         ? 'x'
           : s.match == Match::kSoft        ? 's'
           : s.match == Match::kIndependent ? 'i'
                                            : '-';
  }
  return out;
}

// The tier of each chunk, "" for a miss.
inline std::vector<std::string> tiers_of(const Prefilled& prefilled) {
  std::vector<std::string> out;
  for (size_t i = 0; i < prefilled.plan.segments.size(); ++i) {
    if (prefilled.plan.segments[i].kind == SegmentKind::kChunk)
      out.emplace_back(prefilled.found[i].tier);
  }
  return out;
}

}  // namespace tessera
