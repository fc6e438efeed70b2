#pragma once
// Documents, their passages and a keyword index of one named store, in one SQLite file (WAL, FTS5).
// Durable: what add_document returned from survives a crash. Thread-safe: one mutex around one
// connection; several processes may share the file (busy timeout, BEGIN IMMEDIATE).
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/splitter.h"

namespace tessera {

struct StoredPassage {
  int64_t id = 0;
  std::string document;  // path as indexed
  Passage passage;
};

struct SearchHit {
  StoredPassage passage;
  double score = 0;  // BM25 as a positive number; higher is better
};

struct StoredDocument {
  std::string path;
  std::string digest;  // hex SHA-256 of the file's bytes
  int64_t n_passages = 0;
};

class DocumentStore {
 public:
  // Opens, or creates with mode 0600 in a folder that exists. Throws Error(kIo) when the file
  // cannot be opened, is not ours (it is left untouched) or was written by a newer version. So does
  // every method when the system refuses.
  explicit DocumentStore(const std::filesystem::path& file);
  ~DocumentStore();

  // Settings of the store by name (model, anchor...). Kept as text.
  using Settings = std::map<std::string, std::string>;
  Settings settings() const;
  // All of them in one transaction, unless each of these names has a value already: of several
  // first writers one wins as a whole, and a part of the settings counts as none.
  void init_settings(const Settings& settings);
  // All of them in one transaction, whatever their values were.
  void replace_settings(const Settings& settings);

  // Replaces the document and all its passages in one transaction. Returns the passages' ids.
  std::vector<int64_t> add_document(const StoredDocument& document,
                                    const std::vector<Passage>& passages);
  bool remove_document(std::string_view path);
  std::optional<StoredDocument> document(std::string_view path) const;
  std::vector<StoredDocument> documents() const;
  std::vector<StoredPassage> passages(std::string_view path) const;

  // At most `k` best passages by BM25 over title and text (Porter stemming), any word may match.
  // Query text is data: FTS5 operators in it mean nothing. Ties broken by id, so the order is
  // stable. Empty when no word matches. English function words do not count beside others, nor do
  // words beyond 64. In scripts written without spaces a word is all between two marks.
  std::vector<SearchHit> search(std::string_view query, int32_t k) const;

  int64_t n_passages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
