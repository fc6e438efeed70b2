#include "tessera/indexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

bool is_markdown(const fs::path& path) {
  return path.extension() == ".md" || path.extension() == ".markdown";
}
bool is_document(const fs::path& path) { return is_markdown(path) || path.extension() == ".txt"; }

// A text is read whole, and splitting it takes a few times its size.
constexpr uintmax_t kMaxDocumentBytes = uintmax_t{1} << 30;

std::string key_of_path(const fs::path& path) { return fs::weakly_canonical(path).string(); }

enum class Change { kStored, kUnchanged };

Change index_file(DocumentStore& documents, const fs::path& path, const SplitOptions& split) {
  const std::vector<std::byte> bytes = read_document(path);
  Sha256 hash;
  hash.update(bytes);
  const std::string digest = to_hex(hash.digest());
  const std::string name = key_of_path(path);
  const std::optional<StoredDocument> old = documents.document(name);
  if (old && old->digest == digest) return Change::kUnchanged;
  documents.add_document({name, digest, 0}, split_bytes(path, bytes, split));
  return Change::kStored;
}

// Documents below a folder that was given, whose files are no longer there.
int64_t remove_vanished(DocumentStore& documents, const std::vector<std::string>& paths) {
  int64_t n = 0;
  // A file that cannot be looked at just now counts as being there.
  std::error_code ignored;
  for (const StoredDocument& document : documents.documents()) {
    const bool below = std::any_of(paths.begin(), paths.end(), [&](const std::string& root) {
      return fs::is_directory(root, ignored) &&
             document.path.starts_with((fs::path(key_of_path(root)) / "").string());
    });
    const bool is_gone =
        below && fs::status(document.path, ignored).type() == fs::file_type::not_found;
    if (is_gone) n += documents.remove_document(document.path) ? 1 : 0;
  }
  return n;
}

void add_documents_below(const fs::path& folder, std::set<fs::path>& found,
                         std::vector<FailedFile>& failed) {
  constexpr auto kOptions = fs::directory_options::skip_permission_denied;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, kOptions, error);
  for (; it != fs::end(it); it.increment(error)) {
    const fs::path& path = it->path();
    if (!is_document(path)) continue;
    std::error_code unknown;
    const fs::file_status status = fs::status(path, unknown);
    if (fs::is_regular_file(status)) found.insert(path);
    if (!fs::status_known(status)) failed.push_back({path.string(), unknown.message()});
  }
  if (error) failed.push_back({folder.string(), error.message()});
}

}  // namespace

std::vector<fs::path> find_documents(const std::vector<std::string>& paths,
                                     std::vector<FailedFile>& failed) {
  std::set<fs::path> found;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) {
      throw Error(
          ErrorCode::kNotFound,
          fmt::format("{} - no such file or folder - name files or folders that are there", path));
    }
    if (fs::is_directory(status)) {
      add_documents_below(path, found, failed);
    } else if (!fs::is_regular_file(status)) {
      failed.push_back({path, error ? error.message() : "not a regular file"});
    } else if (is_document(path)) {
      found.insert(path);
    } else {
      failed.push_back({path, "not plain text (.txt) or Markdown (.md)"});
    }
  }
  return {found.begin(), found.end()};
}

std::vector<std::byte> read_document(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (!error && size > kMaxDocumentBytes)
    throw Error(ErrorCode::kInvalidRequest, "is larger than 1 GiB: cut it into smaller files");
  std::optional<std::vector<std::byte>> bytes = read_file(path);
  if (!bytes) throw Error(ErrorCode::kIo, "cannot be read");
  return std::move(*bytes);
}

std::vector<Passage> split_bytes(const fs::path& path, std::span<const std::byte> bytes,
                                 const SplitOptions& split) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const DocumentFormat format =
      is_markdown(path) ? DocumentFormat::kMarkdown : DocumentFormat::kPlainText;
  std::vector<Passage> passages = split_document(text, format, path.stem().string(), split);
  if (passages.empty()) throw Error(ErrorCode::kInvalidRequest, "has no text");
  return passages;
}

SplitOptions split_options(const PromptBuilder& prompts, int32_t max_tokens) {
  return {max_tokens, [&prompts](std::string_view title, std::string_view text) {
            return static_cast<int32_t>(prompts.chunk_ids(title, text).size());
          }};
}

DocumentReport index_documents(const Session& session, DocumentStore& documents,
                               const std::vector<std::string>& paths, const SplitOptions& split) {
  DocumentReport report;
  const std::vector<fs::path> files = find_documents(paths, report.failed);
  ProgressBar bar(session, "documents", files.size(), ProgressBar::Unit::kItems);
  for (size_t i = 0; i < files.size(); ++i) {
    session.throw_if_stopped();
    bar.update(i, files[i].filename().string());
    ++report.n_files;
    try {
      if (index_file(documents, files[i], split) == Change::kUnchanged) ++report.n_unchanged;
    } catch (const Error& error) {  // one bad file does not keep the others out
      if (error.code() != ErrorCode::kInvalidRequest && error.code() != ErrorCode::kIo) throw;
      // Its older version says what the file no longer does.
      if (error.code() == ErrorCode::kInvalidRequest)
        documents.remove_document(key_of_path(files[i]));
      report.failed.push_back({files[i].string(), error.what()});
    }
  }
  report.n_removed = remove_vanished(documents, paths);
  return report;
}

namespace {

// A passage that the scorer cannot hold is none that indexing stops at.
void score(const Session& session, Scorer& scorer, const Passage& passage, KvReport& report) {
  const std::unique_ptr<ReusePolicy> reader = score_reader();
  try {
    const Scorer::Outcome outcome = scorer.build({passage.title, passage.text}, reader->evidence(),
                                                 reader->layers(), session.stop_token());
    if (outcome != Scorer::Outcome::kNotStored) return;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidRequest) throw;
  }
  ++report.n_not_scored;
}

}  // namespace

std::unique_ptr<ReusePolicy> score_reader() { return make_policy("speccache", {}); }

KvReport build_kv(const Session& session, const DocumentStore& documents, Workspace& workspace,
                  AnchorKind kind) {
  const Stopwatch watch;
  KvReport report;
  Engine& engine = workspace.engine();
  ChunkBuilder builder = engine.builder();
  const Anchor anchor = engine.anchor(kind);
  builder.build_preamble(engine.prompts().preamble_ids(), session.stop_token());
  ProgressBar bar(session, "kv", static_cast<uint64_t>(documents.n_passages()),
                  ProgressBar::Unit::kItems);
  for (const StoredDocument& document : documents.documents()) {
    for (const StoredPassage& stored : documents.passages(document.path)) {
      session.throw_if_stopped();
      const std::vector<int32_t> ids =
          engine.prompts().chunk_ids(stored.passage.title, stored.passage.text);
      const ChunkBuilder::Outcome outcome = builder.build(anchor, ids, session.stop_token());
      ++report.n_chunks;
      report.n_tokens += static_cast<int64_t>(ids.size());
      report.n_built += outcome == ChunkBuilder::Outcome::kBuilt ? 1 : 0;
      report.n_not_stored += outcome == ChunkBuilder::Outcome::kNotStored ? 1 : 0;
      if (workspace.scorer() != nullptr)
        score(session, *workspace.scorer(), stored.passage, report);
      bar.update(static_cast<uint64_t>(report.n_chunks));
    }
  }
  report.rows_computed = builder.rows_computed();
  report.seconds = watch.ms() / 1000.0;
  return report;
}

}  // namespace tessera
