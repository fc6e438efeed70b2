#pragma once
// Keyword search over passages, the one of `tessera index`, for what measures: over the passages of
// questions and a corpus beside them. An object is not thread-safe; the functions are.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "eval/runner.h"
#include "retrieval/document_store.h"

namespace tessera {

class PassageSearch {
 public:
  // The index is `file`, in a folder that exists. Throws as DocumentStore does.
  explicit PassageSearch(const std::filesystem::path& file) : documents_(file) {}

  // What is searched from now on.
  void index(std::span<const PassageText> passages);

  // At most `k` best for `query`, best first, as places in what was indexed. Empty when no word
  // matches.
  std::vector<size_t> best(std::string_view query, int32_t k) const;

 private:
  DocumentStore documents_;
  std::vector<int64_t> ids_;  // of each passage: ascending
};

// Passages alone: one {"title", "text"} a line, the title may be missing. `origin` names the text
// in errors. Throws Error(kInvalidRequest) with the number of the line that is none, and for a text
// without any.
std::vector<PassageText> parse_passages(std::string_view text, std::string_view origin);

// Of equal passages the first stays.
void drop_repeats(std::vector<PassageText>& passages);

// SHA-256 over titles and texts, hex.
std::string passages_digest(std::span<const PassageText> passages);

// Gives each question the `k` passages that search ranks best for it, best first, out of the corpus
// and then the passages of all questions, each once. `index_file` as for PassageSearch. Throws
// Error(kInvalidRequest) where there is no passage at all, and naming a question for which none is
// found.
void retrieve_passages(std::vector<EvalSet>& sets, std::vector<PassageText> corpus, int32_t k,
                       const std::filesystem::path& index_file);

}  // namespace tessera
