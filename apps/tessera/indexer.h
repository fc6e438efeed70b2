#pragma once
// Puts files into a store: text into the document store, KV of every passage into the KV store.
// Used by `index` and `demo`.
#include <cstdint>
#include <filesystem>
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
  int64_t n_present = 0;
  int64_t n_built = 0;
  int64_t n_not_stored = 0;
  int64_t n_tokens = 0;       // of all chunks
  int64_t rows_computed = 0;  // anchors included
  double seconds = 0;
};

// Plain text and Markdown files at or below the paths, sorted. Throws Error(kNotFound) for a path
// that is not there; files of other kinds are listed in `failed` when they were named themselves,
// and passed over inside folders.
std::vector<std::filesystem::path> find_documents(const std::vector<std::string>& paths,
                                                  std::vector<FailedFile>& failed);

// Markdown by its file name, else plain text.
DocumentFormat format_of(const std::filesystem::path& path);
// Counts tokens with `prompts`, which must outlive the result.
SplitOptions split_options(const PromptBuilder& prompts, int32_t max_tokens);

// Reads, splits and stores what is new or changed. `count_tokens` counts a chunk's target tokens.
DocumentReport index_documents(const Session& session, DocumentStore& documents,
                               const std::vector<std::string>& paths, const SplitOptions& split);

// Makes the KV of every passage that has none yet. What is finished is kept when a stop is asked
// for.
KvReport build_kv(const Session& session, const DocumentStore& documents, Workspace& workspace,
                  AnchorKind anchor);

}  // namespace tessera
