#include "retrieval/document_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/sqlite.h"
#include "retrieval/query.h"

namespace tessera {
namespace {

constexpr uint32_t kApplicationId =
    0x54535241;  // "TSRA": tells our files from those of other programs
constexpr int64_t kSchemaVersion = 1;

// The triggers keep the index in step with the passages. AUTOINCREMENT: an id is never given twice,
// so one kept from before a document was replaced finds nothing rather than another passage.
constexpr const char* kSchema = R"sql(
CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, digest TEXT NOT NULL);
CREATE TABLE passages(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  document_id INTEGER NOT NULL REFERENCES documents(id),
  title TEXT NOT NULL, text TEXT NOT NULL, begin_byte INTEGER NOT NULL, end_byte INTEGER NOT NULL);
CREATE INDEX passages_by_document ON passages(document_id);
CREATE VIRTUAL TABLE passage_index USING fts5(
  title, text, content='passages', content_rowid='id', tokenize='porter unicode61');
CREATE TRIGGER passage_added AFTER INSERT ON passages BEGIN
  INSERT INTO passage_index(rowid, title, text) VALUES (new.id, new.title, new.text);
END;
CREATE TRIGGER passage_removed AFTER DELETE ON passages BEGIN
  INSERT INTO passage_index(passage_index, rowid, title, text) VALUES ('delete', old.id, old.title, old.text);
END;
)sql";

constexpr std::string_view kPassageColumns =
    "p.id, d.path, p.title, p.text, p.begin_byte, p.end_byte";

[[noreturn]] void refuse(const std::filesystem::path& file, std::string_view why,
                         std::string_view advice) {
  throw Error(ErrorCode::kIo,
              fmt::format("cannot open document store {} - {} - {}", file.string(), why, advice));
}

// Looks before anything is opened for writing, so that a file of another program stays as it is.
// The application id is in the main file from the first commit on, because the file becomes a WAL
// one only after it.
const std::filesystem::path& checked(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return file;
  if (!std::filesystem::is_regular_file(file, error))
    refuse(file, "it is not a file", "name a file");
  if (std::filesystem::file_size(file, error) == 0) return file;
  const std::optional<uint32_t> id = peek_application_id(file);
  if (!id)
    refuse(file, "it is not an SQLite file or cannot be read",
           "name another file, or restore this one");
  if (*id != kApplicationId) refuse(file, "it belongs to another program", "name another file");
  return file;
}

void make_schema(Database& database, const std::filesystem::path& file) {
  using std::filesystem::perms;
  std::error_code error;
  // While the file is still empty: the log files get the mode of the database.
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write, error);
  if (error) refuse(file, error.message(), "check its owner");
  WriteTransaction transaction(database);
  if (database.pragma_number("user_version") != 0) return;  // another process was faster
  database.execute(kSchema);
  database.execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplicationId,
                               kSchemaVersion));
  transaction.commit();
}

StoredPassage passage_of(const Statement& row) {
  return {.id = row.integer(0),
          .document = row.text(1),
          .passage = {.title = row.text(2),
                      .text = row.text(3),
                      .begin = static_cast<size_t>(row.integer(4)),
                      .end = static_cast<size_t>(row.integer(5))}};
}

std::optional<int64_t> document_id(Database& database, std::string_view path) {
  Statement find(database, "SELECT id FROM documents WHERE path = ?1");
  find.bind(1, path);
  return find.step() ? std::optional(find.integer(0)) : std::nullopt;
}

void remove_passages(Database& database, int64_t document) {
  Statement(database, "DELETE FROM passages WHERE document_id = ?1").bind(1, document).run();
}

int64_t put_document(Database& database, const StoredDocument& document) {
  Statement put(database,
                "INSERT INTO documents(path, digest) VALUES (?1, ?2) "
                "ON CONFLICT(path) DO UPDATE SET digest = excluded.digest RETURNING id");
  put.bind(1, document.path).bind(2, document.digest);
  put.step();
  const int64_t id = put.integer(0);
  put.run();
  return id;
}

DocumentStore::Settings read_settings(Database& database) {
  Statement rows(database, "SELECT name, value FROM settings");
  DocumentStore::Settings out;
  while (rows.step()) out.emplace(rows.text(0), rows.text(1));
  return out;
}

void put_settings(Database& database, const DocumentStore::Settings& settings) {
  Statement put(database, "INSERT OR REPLACE INTO settings(name, value) VALUES (?1, ?2)");
  for (const auto& [name, value] : settings) put.bind(1, name).bind(2, value).run();
}

std::vector<StoredDocument> read_documents(Statement& rows) {
  std::vector<StoredDocument> out;
  while (rows.step()) out.push_back({rows.text(0), rows.text(1), rows.integer(2)});
  return out;
}

}  // namespace

struct DocumentStore::State {
  explicit State(const std::filesystem::path& file) : database(checked(file)) {}

  std::mutex mutex;
  Database database;
};

DocumentStore::DocumentStore(const std::filesystem::path& file)
    : state_(std::make_unique<State>(file)) {
  Database& database = state_->database;
  if (database.pragma_number("user_version") == 0) make_schema(database, file);
  const int64_t version = database.pragma_number("user_version");
  if (version > kSchemaVersion) {
    refuse(file,
           fmt::format("its schema version is {} and this program knows up to {}", version,
                       kSchemaVersion),
           "upgrade tessera");
  }
  if (!database.use_wal()) {
    refuse(file, "its write-ahead log cannot be switched on",
           "put it on a local disk, close other programs that use it");
  }
  database.execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON");
}

DocumentStore::~DocumentStore() = default;

DocumentStore::Settings DocumentStore::settings() const {
  const std::lock_guard lock(state_->mutex);
  return read_settings(state_->database);
}

void DocumentStore::init_settings(const Settings& settings) {
  const std::lock_guard lock(state_->mutex);
  WriteTransaction transaction(state_->database);
  const Settings kept = read_settings(state_->database);
  const bool has_all = std::all_of(settings.begin(), settings.end(),
                                   [&](const auto& each) { return kept.contains(each.first); });
  if (has_all) return;
  put_settings(state_->database, settings);
  transaction.commit();
}

void DocumentStore::replace_settings(const Settings& settings) {
  const std::lock_guard lock(state_->mutex);
  WriteTransaction transaction(state_->database);
  put_settings(state_->database, settings);
  transaction.commit();
}

std::vector<int64_t> DocumentStore::add_document(const StoredDocument& document,
                                                 const std::vector<Passage>& passages) {
  const std::lock_guard lock(state_->mutex);
  Database& database = state_->database;
  WriteTransaction transaction(database);
  const int64_t document_row = put_document(database, document);
  remove_passages(database, document_row);
  Statement add(database,
                "INSERT INTO passages(document_id, title, text, begin_byte, end_byte) VALUES (?1, "
                "?2, ?3, ?4, ?5) "
                "RETURNING id");
  std::vector<int64_t> ids;
  for (const Passage& passage : passages) {
    add.bind(1, document_row).bind(2, passage.title).bind(3, passage.text);
    add.bind(4, static_cast<int64_t>(passage.begin)).bind(5, static_cast<int64_t>(passage.end));
    add.step();
    ids.push_back(add.integer(0));
    add.run();
  }
  transaction.commit();
  return ids;
}

bool DocumentStore::remove_document(std::string_view path) {
  const std::lock_guard lock(state_->mutex);
  Database& database = state_->database;
  WriteTransaction transaction(database);
  const std::optional<int64_t> id = document_id(database, path);
  if (!id) return false;
  remove_passages(database, *id);
  Statement(database, "DELETE FROM documents WHERE id = ?1").bind(1, *id).run();
  transaction.commit();
  return true;
}

std::optional<StoredDocument> DocumentStore::document(std::string_view path) const {
  const std::lock_guard lock(state_->mutex);
  Statement find(
      state_->database,
      "SELECT path, digest, (SELECT count(*) FROM passages WHERE document_id = documents.id) "
      "FROM documents WHERE path = ?1");
  find.bind(1, path);
  const std::vector<StoredDocument> found = read_documents(find);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<StoredDocument> DocumentStore::documents() const {
  const std::lock_guard lock(state_->mutex);
  Statement all(
      state_->database,
      "SELECT path, digest, (SELECT count(*) FROM passages WHERE document_id = documents.id) "
      "FROM documents ORDER BY path");
  return read_documents(all);
}

std::vector<StoredPassage> DocumentStore::passages(std::string_view path) const {
  const std::lock_guard lock(state_->mutex);
  Statement rows(state_->database,
                 fmt::format("SELECT {} FROM passages p JOIN documents d ON d.id = p.document_id "
                             "WHERE d.path = ?1 ORDER BY p.id",
                             kPassageColumns));
  rows.bind(1, path);
  std::vector<StoredPassage> out;
  while (rows.step()) out.push_back(passage_of(rows));
  return out;
}

std::vector<SearchHit> DocumentStore::search(std::string_view query, int32_t k) const {
  const std::string expression = match_expression(query);
  if (expression.empty() || k <= 0) return {};
  const std::lock_guard lock(state_->mutex);
  // bm25() of FTS5 is negative, lower is better. Titles weigh double: they name the topic, in few
  // words.
  Statement rows(
      state_->database,
      fmt::format(
          "SELECT {}, bm25(passage_index, 2.0, 1.0) AS rank_value FROM passage_index "
          "JOIN passages p ON p.id = passage_index.rowid JOIN documents d ON d.id = p.document_id "
          "WHERE passage_index MATCH ?1 ORDER BY rank_value, p.id LIMIT ?2",
          kPassageColumns));
  rows.bind(1, expression).bind(2, int64_t{k});
  std::vector<SearchHit> hits;
  while (rows.step()) hits.push_back({passage_of(rows), -rows.real(6)});
  return hits;
}

int64_t DocumentStore::n_passages() const {
  const std::lock_guard lock(state_->mutex);
  Statement count(state_->database, "SELECT count(*) FROM passages");
  return count.step() ? count.integer(0) : 0;
}

}  // namespace tessera
