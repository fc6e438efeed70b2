#pragma once
// Puts files into a store: text into the document store, KV of every passage into the KV store.
// Used by `index` and `demo`.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "retrieval/document_store.h"
#include "tessera/command.h"
#include "tessera/workspace.h"

namespace tessera {

struct FailedFile {
  std::string path;
  std::string why;
};

// What reading the files changed in the document store.
struct DocumentReport {
  int64_t n_files = 0;
  int64_t n_unchanged = 0;
  int64_t n_removed = 0;  // documents below an indexed folder whose file is gone
  std::vector<FailedFile> failed;
};

struct KvReport {
  int64_t n_chunks = 0;
  int64_t n_built = 0;
  int64_t n_not_stored = 0;
  int64_t n_not_scored = 0;   // by a scorer that was asked for
  int64_t n_tokens = 0;       // of all chunks
  int64_t rows_computed = 0;  // anchors included
  double seconds = 0;
};

// Plain text and Markdown files at or below the paths, sorted. Throws Error(kNotFound) for a path
// that is not there. What the system does not let us look at is listed in `failed`; so are files of
// other kinds and what is no file when they were named themselves, and passed over inside folders.
std::vector<std::filesystem::path> find_documents(const std::vector<std::string>& paths,
                                                  std::vector<FailedFile>& failed);

// The bytes of a document. Throws Error(kIo) when it cannot be read, Error(kInvalidRequest) when it
// is too large.
std::vector<std::byte> read_document(const std::filesystem::path& path);
// Its passages, at least one; Markdown by its file name, else plain text. Throws
// Error(kInvalidRequest) when there is no text or it cannot be split.
std::vector<Passage> split_bytes(const std::filesystem::path& path,
                                 std::span<const std::byte> bytes, const SplitOptions& split);
// Counts tokens with `prompts`, which must outlive the result.
SplitOptions split_options(const PromptBuilder& prompts, int32_t max_tokens);

// Reads, splits and stores what is new or changed. A document whose new version holds no text to
// split is removed: its old one must not be found any longer.
DocumentReport index_documents(const Session& session, DocumentStore& documents,
                               const std::vector<std::string>& paths, const SplitOptions& split);

// The policy whose scores are made, as it reads them unless it is told otherwise.
std::unique_ptr<ReusePolicy> score_reader();

// Makes the KV of every passage that has none yet. What is finished is kept when a stop is asked
// for.
KvReport build_kv(const Session& session, const DocumentStore& documents, Workspace& workspace,
                  AnchorKind anchor);

}  // namespace tessera
