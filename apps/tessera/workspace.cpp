#include "tessera/workspace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/sqlite.h"
#include "base/text_util.h"
#include "catalog/catalog.h"
#include "catalog/file_digest.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> store_names() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir() / "stores", ignored)) {
    if (fs::exists(entry.path() / "store.db")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

int32_t integer_setting(const std::string& text, int32_t fallback) {
  int32_t value = fallback;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::unique_ptr<ChunkStore> open_store(const ModelOptions& options) {
  std::vector<std::unique_ptr<Tier>> tiers;
  if (options.ram_tier_bytes > 0 || options.in_memory)  // a tier takes 0 for no limit
    tiers.push_back(make_tier("ram", {.dir = {}, .limit_bytes = options.ram_tier_bytes}));
  if (options.in_memory)
    return std::make_unique<ChunkStore>(std::move(tiers),
                                        std::make_unique<VariantIndex>(kInMemory));
  tiers.push_back(make_tier("disk", {.dir = kv_dir(), .limit_bytes = options.disk_limit_bytes}));
  return std::make_unique<ChunkStore>(std::move(tiers),
                                      std::make_unique<VariantIndex>(variants_file()));
}

}  // namespace

void LoadingOptions::add_to(CLI::App& app) {
  app.add_option("--threads", n_threads, "Threads of the model; 0: one for each CPU there is")
      ->check(CLI::Range(0, 1024));
  app.add_option("--layout", layout, "Weight layout: measured, plain or repacked")
      ->check(CLI::IsMember({"measured", "plain", "repacked"}));
}

void LoadingOptions::add_keep_file_types_to(CLI::App& app) {
  app.add_flag("--keep-file-types", keep_file_types,
               "Do not turn Q4_1 and Q5_0 weights into Q8_0 when they are loaded");
}

void ModelOptions::add_to(CLI::App& app) {
  app.add_option("-m,--model", model, "Name of the catalogue, or path of a GGUF file");
  LoadingOptions::add_to(app);
  add_keep_file_types_to(app);
  app.add_option(
      "--scorer", scorer,
      "Small model that rates tokens where a policy needs one; default: the store's, else "
      "smollm2-135m; 'index' uses one only when it is named here or kept by the store, and 'none' "
      "there drops the store's");
  app.add_flag(
      "--scorer-kv", scorer_kv,
      "For --scorer-attention: keep the scorer's own KV of chunks from the first question on, "
      "so that it computes only the question");
  app.add_option("--ctx", n_ctx,
                 "Tokens of prompt and answer together; 0: the model's, at most 8192")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--ram-tier", ram_tier_bytes, "Bytes of KV kept in memory, as in 512MB; 0: none")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--disk-limit", disk_limit_bytes, "Bytes of KV kept on disk; 0: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
}

LoadOptions LoadingOptions::load_options() const {
  LoadOptions out;
  out.keep_file_types = keep_file_types;
  out.layout = layout == "plain"      ? WeightLayout::kPlain
               : layout == "repacked" ? WeightLayout::kRepacked
                                      : WeightLayout::kMeasured;
  out.n_threads = n_threads;
  out.profile_dir = data_dir() / "profiles";
  return out;
}

// As resolve_model() tells them apart.
std::string lasting_model(const std::string& name_or_path) {
  std::error_code error;
  const bool is_path = name_or_path.find('/') != std::string::npos ||
                       name_or_path.ends_with(".gguf") || fs::is_regular_file(name_or_path, error);
  return is_path ? fs::absolute(name_or_path).string() : name_or_path;
}

std::optional<StoreSettings> StoreSettings::read(const DocumentStore& documents) {
  DocumentStore::Settings kept = documents.settings();
  StoreSettings out;
  for (const auto& [name, value] : out.to_map()) {
    if (!kept.contains(name) && name != "scorer") return std::nullopt;
  }
  out.model = kept["model"];
  out.scorer = kept["scorer"];
  out.anchor = anchor_from_name(kept["anchor"]).value_or(out.anchor);
  out.leadin_tokens = integer_setting(kept["leadin_tokens"], out.leadin_tokens);
  out.chunk_tokens = integer_setting(kept["chunk_tokens"], out.chunk_tokens);
  out.name_space = kept["namespace"];
  out.keep_file_types = kept["keep_file_types"] == "1";
  return out;
}

DocumentStore::Settings StoreSettings::to_map() const {
  return {{"model", model},
          {"scorer", scorer},
          {"anchor", std::string(anchor_name(anchor))},
          {"leadin_tokens", std::to_string(leadin_tokens)},
          {"chunk_tokens", std::to_string(chunk_tokens)},
          {"namespace", name_space},
          {"keep_file_types", keep_file_types ? "1" : "0"}};
}

fs::path store_file(const std::string& name) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || name.size() > 64 || name.front() == '.' ||
      !std::all_of(name.begin(), name.end(), is_plain)) {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format(
            "store name {} - may hold letters, digits, '-', '_' and '.' only, at most 64 of them",
            quote(name)));
  }
  return data_dir() / "stores" / name / "store.db";
}

fs::path kv_dir() { return cache_dir() / "kv"; }
fs::path scores_file() { return cache_dir() / "scores.db"; }
fs::path variants_file() { return cache_dir() / "variants.db"; }
fs::path eval_reference_dir() { return cache_dir() / "eval" / "full"; }

std::unique_ptr<DocumentStore> open_documents(const std::string& name) {
  const fs::path file = store_file(name);
  if (!fs::exists(file)) {
    const std::vector<std::string> names = store_names();
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("no store {} - {} - make it with 'tessera index PATH --store {}'", quote(name),
                    names.empty() ? "there is none yet"
                                  : fmt::format("there are {}", fmt::join(names, ", ")),
                    name));
  }
  return std::make_unique<DocumentStore>(file);
}

StoreSettings settings_of(const DocumentStore& documents, const std::string& name) {
  const std::optional<StoreSettings> settings = StoreSettings::read(documents);
  if (settings) return *settings;
  throw Error(ErrorCode::kNotFound,
              fmt::format("store {} has no settings - it was never indexed - run 'tessera index "
                          "PATH --store {}'",
                          quote(name), name));
}

Workspace::Loaded Workspace::load(const std::string& name, const ModelOptions& options,
                                  const StoreSettings& settings) {
  const fs::path path = resolve_model(name);
  const FilePrint before = print_of(path);
  LoadOptions how = options.load_options();
  how.keep_file_types = how.keep_file_types || settings.keep_file_types;
  Loaded out = {Model::load(path, how), std::make_unique<Tokenizer>(path), {}, {}};
  out.options.n_threads = options.n_threads;
  out.options.leadin_tokens = settings.leadin_tokens;
  out.options.name_space = settings.name_space;
  out.options.model_digest = model_digest(path);
  out.profile = read_profile(out.options.model_digest, out.model->config().n_layers);
  out.options.sink_layer = out.profile.sink_layer.value_or(-1);
  if (print_of(path) != before) {  // its KV would be stored under the name of another file
    throw Error(ErrorCode::kModel,
                fmt::format("model {} was changed while it was loaded - run again", path.string()));
  }
  return out;
}

namespace {

const std::string& target_of(const ModelOptions& options, const StoreSettings& settings) {
  return options.model.empty() ? settings.model : options.model;
}

}  // namespace

std::string digest_of_model(const ModelOptions& options, const StoreSettings& settings) {
  return model_digest(resolve_model(target_of(options, settings)));
}

Workspace::Workspace(const ModelOptions& options, const StoreSettings& settings, bool needs_scorer)
    : model_(load(target_of(options, settings), options, settings)), store_(open_store(options)) {
  if (needs_scorer) {
    const std::string& kept = settings.scorer.empty() ? kDefaultScorer : settings.scorer;
    scorer_model_ = load(options.scorer.empty() ? kept : options.scorer, options, settings);
    // A prompt may be longer in the scorer's tokens than in the target's.
    scorer_model_.options.n_ctx =
        std::min(scorer_model_.model->config().n_ctx_train,
                 2 * std::max(options.n_ctx, ModelContext::kDefaultContext));
    scores_ = std::make_unique<ScoreStore>(scores_file());
    scorer_ = std::make_unique<Scorer>(scorer_model_.model, *scorer_model_.tokenizer,
                                       options.scorer_kv ? store_.get() : nullptr, scores_.get(),
                                       scorer_model_.options);
  }
  model_.options.n_ctx = options.n_ctx;
  engine_ = std::make_unique<Engine>(model_.model, *model_.tokenizer, store_.get(), model_.options,
                                     scorer_.get());
}

bool has_scorer(const ModelOptions& options, const StoreSettings& settings) {
  return !options.scorer.empty() || !settings.scorer.empty() ||
         fs::exists(model_path(kDefaultScorer));
}

uint64_t kv_bytes_per_token(const ModelConfig& config) {
  return KvChunk::payload_bytes(config.kv_geometry(), 1);
}

}  // namespace tessera
