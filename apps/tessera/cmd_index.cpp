#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "catalog/catalog.h"
#include "model/decoder.h"
#include "reuse/policy.h"
#include "tessera/command.h"
#include "tessera/format.h"
#include "tessera/indexer.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::string_view kNoScorer = "none";  // drops the store's

struct IndexOptions {
  std::vector<std::string> paths;
  std::string store;
  std::string anchor;
  int32_t leadin_tokens = 0;
  int32_t chunk_tokens = 0;
  std::string name_space;
  bool dry_run = false;
  ModelOptions model;
};

// A store keeps its settings: chunks of two kinds would never be found together.
void check_same(const StoreSettings& kept, const StoreSettings& wanted, const std::string& store) {
  const auto same = [&](const auto& a, const auto& b, std::string_view what) {
    if (a == b) return;
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("store '{}' was made with another {} - its chunks would not be found "
                            "- use a new store name",
                            store, what));
  };
  same(kept.model, wanted.model, "model (" + kept.model + ")");
  same(kept.anchor, wanted.anchor, "anchor");
  same(kept.leadin_tokens, wanted.leadin_tokens, "lead-in length");
  same(kept.chunk_tokens, wanted.chunk_tokens, "chunk size");
  same(kept.name_space, wanted.name_space, "namespace");
  same(kept.keep_file_types, wanted.keep_file_types, "choice of weight types");
}

// The store's own settings, or for a new one what was asked for.
StoreSettings settle(const std::optional<StoreSettings>& kept, const IndexOptions& o) {
  StoreSettings wanted = kept.value_or(StoreSettings{});
  if (!o.model.model.empty()) wanted.model = lasting_model(o.model.model);
  wanted.anchor = anchor_from_name(o.anchor).value_or(wanted.anchor);  // "": as it was
  if (o.leadin_tokens > 0) wanted.leadin_tokens = o.leadin_tokens;
  if (o.chunk_tokens > 0) wanted.chunk_tokens = o.chunk_tokens;
  if (!o.name_space.empty()) wanted.name_space = o.name_space;
  if (o.model.keep_file_types) wanted.keep_file_types = true;
  if (o.model.scorer == kNoScorer) {
    wanted.scorer.clear();
  } else if (!o.model.scorer.empty()) {
    wanted.scorer = lasting_model(o.model.scorer);
  }
  if (kept) check_same(*kept, wanted, o.store);
  return wanted;
}

// Before anything is kept: a store whose chunks can never be built would be of no use.
void check_fits(const Engine& engine, const StoreSettings& settings) {
  const auto n_anchor = static_cast<int32_t>(engine.anchor(settings.anchor).ids.size());
  if (n_anchor + settings.chunk_tokens <= engine.n_ctx()) return;
  throw Error(
      ErrorCode::kInvalidRequest,
      fmt::format("chunks of {} tokens behind an anchor of {} - do not fit into the context "
                  "of {} - use a smaller --chunk-tokens or a larger --ctx",
                  settings.chunk_tokens, n_anchor, engine.n_ctx()));
}

// Seconds of one row of a prefill, measured once on this machine.
double seconds_per_row(Decoder& decoder, const StepOptions& options) {
  constexpr int32_t kRows = 256;
  std::vector<int32_t> ids(kRows, 0), positions(kRows);
  for (int32_t i = 0; i < kRows; ++i) ids[static_cast<size_t>(i)] = i % decoder.config().n_vocab;
  std::iota(positions.begin(), positions.end(), 0);
  WorkingKv kv(decoder.config(), kRows);
  const Stopwatch watch;
  decoder.prefill({&kv, ids, positions}, options);
  return watch.ms() / 1000.0 / kRows;
}

json to_json(const std::vector<FailedFile>& failed) {
  json out = json::array();
  for (const FailedFile& f : failed) out.push_back({{"path", f.path}, {"why", f.why}});
  return out;
}

void note_failures(Session& session, const DocumentReport& report) {
  for (const FailedFile& f : report.failed)
    session.note(fmt::format("failed: {}: {}", f.path, f.why));
  if (!report.failed.empty()) session.set_exit_status(kExitFailed);
}

// What indexing would do.
struct Plan {
  int64_t n_chunks = 0;
  int64_t n_tokens = 0;
  std::set<ChunkKey> missing;  // chunks whose KV is still to be computed
  int64_t n_missing_tokens = 0;
};

void add_to_plan(Plan& plan, const std::vector<Passage>& passages, Workspace& workspace,
                 const Anchor& anchor) {
  const Engine& engine = workspace.engine();
  for (const Passage& p : passages) {
    const std::vector<int32_t> ids = engine.prompts().chunk_ids(p.title, p.text);
    const auto n_tokens = static_cast<int64_t>(ids.size());
    const ChunkKey key =
        key_of(engine.domain(), {Match::kIndependent, anchor.kind, anchor.ids}, ids);
    ++plan.n_chunks;
    plan.n_tokens += n_tokens;
    const bool is_missing = !workspace.store().contains(key) && plan.missing.insert(key).second;
    if (is_missing) plan.n_missing_tokens += n_tokens;
  }
}

// A chunk's tokens are taken to be as many in the scorer's vocabulary, and its scores to be missing
// where its KV is.
double seconds_of(const Plan& plan, Engine& engine, const Anchor& anchor, const ModelOptions& model,
                  const std::string& scorer) {
  if (plan.missing.empty()) return 0;
  const auto n_tokens = static_cast<double>(plan.n_missing_tokens);
  double seconds =
      (n_tokens + static_cast<double>(anchor.ids.size())) * seconds_per_row(engine.decoder(), {});
  if (!scorer.empty()) {
    Decoder decoder(Model::load(resolve_model(scorer), model.load_options()), model.n_threads);
    StepOptions options;
    options.norm_layers = layers_of(score_reader()->layers(), decoder.config().n_layers);
    options.layers = {0, options.norm_layers.end};
    seconds += n_tokens * seconds_per_row(decoder, options);
  }
  return seconds;
}

// Splits in memory only and says what indexing would cost. The store itself is not touched.
void dry_run(Session& session, const IndexOptions& o, Workspace& workspace,
             const StoreSettings& settings) {
  DocumentReport report;
  Plan plan;
  Engine& engine = workspace.engine();
  const Anchor& anchor = engine.anchor(settings.anchor);
  const SplitOptions split = split_options(engine.prompts(), settings.chunk_tokens);
  for (const std::filesystem::path& path : find_documents(o.paths, report.failed)) {
    session.throw_if_stopped();
    ++report.n_files;
    try {
      add_to_plan(plan, split_bytes(path, read_document(path), split), workspace, anchor);
    } catch (const Error& error) {  // as when indexing: one bad file does not hide the others
      if (error.code() != ErrorCode::kInvalidRequest && error.code() != ErrorCode::kIo) throw;
      report.failed.push_back({path.string(), error.what()});
    }
  }
  const uint64_t each = kv_bytes_per_token(workspace.model().config());
  const double seconds = seconds_of(plan, engine, anchor, o.model, settings.scorer);
  const uint64_t bytes = each * static_cast<uint64_t>(plan.n_tokens);
  note_failures(session, report);
  if (session.json()) {
    return session.print_json({{"files", report.n_files},
                               {"failed", to_json(report.failed)},
                               {"chunks", plan.n_chunks},
                               {"chunks_to_build", plan.missing.size()},
                               {"tokens", plan.n_tokens},
                               {"kv_bytes", bytes},
                               {"kv_bytes_per_token", each},
                               {"seconds", seconds},
                               {"dry_run", true}});
  }
  session.print(fmt::format(
      "would index {} files, {} chunks ({} new), {} tokens: KV {}, {} a token, about {}\n",
      report.n_files, plan.n_chunks, plan.missing.size(), plan.n_tokens, human_bytes(bytes),
      human_bytes(each), human_duration(seconds)));
}

void print_report(Session& session, const IndexOptions& o, const DocumentReport& d,
                  const KvReport& k, uint64_t bytes_per_token) {
  const uint64_t bytes = bytes_per_token * static_cast<uint64_t>(k.n_tokens);
  if (session.json()) {
    return session.print_json({{"store", o.store},
                               {"files", d.n_files},
                               {"unchanged", d.n_unchanged},
                               {"removed", d.n_removed},
                               {"failed", to_json(d.failed)},
                               {"chunks", k.n_chunks},
                               {"chunks_built", k.n_built},
                               {"chunks_not_stored", k.n_not_stored},
                               {"chunks_not_scored", k.n_not_scored},
                               {"tokens", k.n_tokens},
                               {"rows_computed", k.rows_computed},
                               {"kv_bytes", bytes},
                               {"kv_bytes_per_token", bytes_per_token},
                               {"seconds", k.seconds}});
  }
  session.print(fmt::format(
      "{} chunks ({} new), {} files ({} unchanged, {} removed, {} failed), KV {}, {} a token, {}\n",
      k.n_chunks, k.n_built, d.n_files, d.n_unchanged, d.n_removed, d.failed.size(),
      human_bytes(bytes), human_bytes(bytes_per_token), human_duration(k.seconds)));
}

void index(Session& session, const IndexOptions& o) {
  std::vector<FailedFile> ignored;
  // A path that is not there is said before a store is made or a model loaded.
  find_documents(o.paths, ignored);
  const std::filesystem::path file = store_file(o.store);
  const bool is_new = !std::filesystem::exists(file);
  if (is_new) resolve_model(o.model.model.empty() ? kDefaultModel : o.model.model);
  const std::string& scorer = o.model.scorer;
  if (!scorer.empty() && scorer != kNoScorer) resolve_model(scorer);
  std::optional<DocumentStore> documents;  // none for a dry run of a new store: it leaves no file
  if (!o.dry_run) make_private_dir(file.parent_path());
  if (!o.dry_run || !is_new) documents.emplace(file);
  const StoreSettings settings =
      settle(documents ? StoreSettings::read(*documents) : std::nullopt, o);
  ModelOptions model = o.model;
  model.model = settings.model;
  Workspace workspace(model, settings, !o.dry_run && !settings.scorer.empty());
  check_fits(workspace.engine(), settings);
  if (o.dry_run) return dry_run(session, o, workspace, settings);
  documents->init_settings(settings.to_map());
  // Another first run with other options may have been faster.
  const StoreSettings now = settings_of(*documents, o.store);
  check_same(now, settings, o.store);
  if (now.scorer != settings.scorer) documents->replace_settings(settings.to_map());
  const DocumentReport d =
      index_documents(session, *documents, o.paths,
                      split_options(workspace.engine().prompts(), settings.chunk_tokens));
  note_failures(session, d);
  if (d.n_removed > 0) {
    session.note("the KV of removed documents stays on disk until 'tessera cache clear'");
  }
  const KvReport k = build_kv(session, *documents, workspace, settings.anchor);
  if (k.n_not_stored > 0) {
    session.set_exit_status(kExitFailed);
    session.note(fmt::format(
        "{} chunks could not be stored (disk full?): their KV is computed again when it is needed",
        k.n_not_stored));
  }
  if (k.n_not_scored > 0)
    session.note(fmt::format("{} chunks have no scores: too long for the scorer, or not stored",
                             k.n_not_scored));
  print_report(session, o, d, k, kv_bytes_per_token(workspace.model().config()));
}

}  // namespace

void add_index(CLI::App& app, Session& session) {
  auto options = std::make_shared<IndexOptions>();
  CLI::App* sub = app.add_subcommand("index",
                                     "Split documents into chunks and compute their KV once. The "
                                     "KV of removed documents stays until 'tessera cache clear'");
  sub->add_option("paths", options->paths, "Files (.txt, .md) or folders of them")->required();
  sub->add_option("--store", options->store, "Store to add them to; made when it is new")
      ->required();
  sub->add_option("--anchor", options->anchor,
                  "What stands before a chunk while it is computed; new stores: leadin")
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}));
  sub->add_option("--leadin-tokens", options->leadin_tokens,
                  "Length of the lead-in; new stores: 64")
      ->check(CLI::Range(1, kMaxLeadinTokens));
  sub->add_option("--chunk-tokens", options->chunk_tokens, "Longest chunk; new stores: 512")
      ->check(CLI::Range(32, 4096));
  sub->add_option("--namespace", options->name_space,
                  "Whose chunks these are: no other namespace finds them; new stores: default");
  sub->add_flag("--dry-run", options->dry_run, "Only say how many bytes and seconds it would take");
  options->model.add_to(*sub);
  sub->callback([options, &session] { index(session, *options); });
}

}  // namespace tessera
