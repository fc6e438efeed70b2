#pragma once
// What the commands that run a model share: its options, and the open model, KV store and engine.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "engine/compare.h"
#include "engine/engine.h"
#include "retrieval/document_store.h"
#include "tessera/command.h"
#include "tessera/model_profile.h"

namespace tessera {

// How a model is loaded and run, as given.
struct LoadingOptions {
  int32_t n_threads = 0;
  bool keep_file_types = false;
  std::string layout = "measured";

  void add_to(CLI::App& app);                  // --threads and --layout
  void add_keep_file_types_to(CLI::App& app);  // --keep-file-types
  LoadOptions load_options() const;
};

// A model and its KV store as given; empty or 0 where the store's or the built-in value holds.
struct ModelOptions : LoadingOptions {
  std::string model;
  std::string scorer;
  bool scorer_kv = false;  // the scorer keeps the KV of chunks too
  int32_t n_ctx = 0;
  uint64_t ram_tier_bytes = uint64_t{512} << 20;
  uint64_t disk_limit_bytes = 0;  // 0: none
  bool in_memory = false;         // KV is kept in memory alone: for commands that empty the store

  void add_to(CLI::App& app);
};

inline constexpr const char* kDefaultModel = "qwen2.5-coder-1.5b";
inline constexpr const char* kDefaultScorer = "smollm2-135m";

// What a store keeps of the model that was asked for: a name as it is, a path made absolute, so
// that it holds in every folder.
std::string lasting_model(const std::string& name_or_path);

// Of measurements: chunks of other commands, among them what `ask` has published as exact, would
// make their numbers depend on what else was run on this machine.
inline constexpr const char* kMeasureNameSpace = "tessera-eval";

inline constexpr int32_t kMaxLeadinTokens = 300;  // as long as its text is for every vocabulary

// How chunks of a store were made; kept with the documents, so that every later command agrees.
struct StoreSettings {
  std::string model = kDefaultModel;
  std::string scorer;  // that rated the chunks when they were indexed; "": none did
  AnchorKind anchor = AnchorKind::kLeadin;
  int32_t leadin_tokens = 64;
  int32_t chunk_tokens = 512;
  std::string name_space = "default";
  bool keep_file_types = false;

  // None also where some are missing.
  static std::optional<StoreSettings> read(const DocumentStore& documents);
  DocumentStore::Settings to_map() const;
  bool operator==(const StoreSettings&) const = default;
};

// Folder of a named store. Throws Error(kInvalidRequest) for a name that is not letters, digits,
// '-', '_' or '.'.
std::filesystem::path store_file(const std::string& name);
std::filesystem::path kv_dir();
std::filesystem::path scores_file();
std::filesystem::path variants_file();
std::filesystem::path eval_reference_dir();  // full prefill's answers that `eval` keeps

// An open store of documents that must exist. Throws Error(kNotFound) naming the stores there are.
std::unique_ptr<DocumentStore> open_documents(const std::string& name);
// Throws Error(kNotFound) for a store that was never indexed: its model would be a guess.
StoreSettings settings_of(const DocumentStore& documents, const std::string& name);

// Content digest of the model that a Workspace of these would load. Throws as resolve_model() and
// model_digest().
std::string digest_of_model(const ModelOptions& options, const StoreSettings& settings);

// A loaded model, and where one is needed a scorer, over the KV store of this user.
class Workspace {
 public:
  Workspace(const ModelOptions& options, const StoreSettings& settings, bool needs_scorer = false);

  Engine& engine() { return *engine_; }
  ChunkStore& store() { return *store_; }
  const Model& model() const { return *model_.model; }
  Scorer* scorer() { return scorer_.get(); }  // null unless it was asked for
  const ModelProfile& profile() const { return model_.profile; }

 private:
  struct Loaded {
    std::shared_ptr<const Model> model;
    std::unique_ptr<Tokenizer> tokenizer;
    EngineOptions options;
    ModelProfile profile;
  };
  static Loaded load(const std::string& name, const ModelOptions& options,
                     const StoreSettings& settings);

  Loaded model_, scorer_model_;
  std::unique_ptr<ChunkStore> store_;
  std::unique_ptr<ScoreStore> scores_;
  std::unique_ptr<Scorer> scorer_;
  std::unique_ptr<Engine> engine_;
};

// Whether a scorer was named, here or by the store, or the default one is there.
bool has_scorer(const ModelOptions& options, const StoreSettings& settings);

// Bytes of KV of one token at rest.
uint64_t kv_bytes_per_token(const ModelConfig& config);

}  // namespace tessera
