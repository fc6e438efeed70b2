// Models on this machine: where their files lie, finding one by name or path, digests, removal.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "catalog/catalog.h"
#include "catalog/file_digest.h"
#include "catalog/file_lock.h"
#include "catalog/part_file.h"

namespace fs = std::filesystem;

namespace tessera {
namespace {

using Json = nlohmann::json;

// Enough for any real collection; beyond it the oldest table is dropped and digests are computed
// anew.
constexpr size_t kMaxRememberedDigests = 1000;

// A file that is replaced while it is hashed is hashed again, but whoever waits for the digest does
// not wait for ever.
constexpr int kMaxHashings = 3;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

fs::path digest_table_path() { return cache_dir() / "model_digests.json"; }

Json read_digest_table() {
  const auto bytes = read_file(digest_table_path());
  if (!bytes) return Json::object();
  const char* text = reinterpret_cast<const char*>(bytes->data());
  Json table = Json::parse(text, text + bytes->size(), nullptr, false);
  return table.is_object() ? table : Json::object();
}

Json json_of(const FilePrint& print) {
  return {{"bytes", print.bytes},
          {"device", print.device},
          {"inode", print.inode},
          {"mtime_ns", print.mtime_ns},
          {"ctime_ns", print.ctime_ns}};
}

std::string digest_key(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  return error ? path.string() : whole.string();
}

std::optional<std::string> remembered_digest(const Json& table, const std::string& key,
                                             const Json& print) {
  const auto found = table.find(key);
  if (found == table.end() || !found->is_object()) return std::nullopt;
  const auto print_found = found->find("file");
  const auto digest = found->find("sha256");
  const bool is_whole =
      print_found != found->end() && digest != found->end() && digest->is_string();
  if (!is_whole || *print_found != print) return std::nullopt;
  return digest->get<std::string>();
}

// Two processes may write the table at once and one of the entries get lost, or the write may fail:
// either costs a second hashing, nothing else.
void write_digest(const fs::path& gguf, const std::string& sha256, const FilePrint& print) {
  Json table = read_digest_table();
  if (table.size() >= kMaxRememberedDigests) table = Json::object();
  table[digest_key(gguf)] = {{"file", json_of(print)}, {"sha256", sha256}};
  const std::string text = table.dump(1, ' ', false, Json::error_handler_t::replace);
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  std::error_code ignored;
  std::string why;
  fs::create_directories(cache_dir(), ignored);
  write_file_atomic(digest_table_path(), {&piece, 1}, why);
}

}  // namespace

fs::path models_dir() {
  const char* dir = std::getenv("TESSERA_MODELS");
  return dir != nullptr && *dir != '\0' ? fs::path(dir) : cache_dir() / "models";
}

fs::path model_path(std::string_view name) { return models_dir() / fmt::format("{}.gguf", name); }

fs::path resolve_model(std::string_view name_or_path) {
  fs::path path(name_or_path);
  if (is_file(path)) return path;
  if (name_or_path.find('/') != std::string_view::npos || path.extension() == ".gguf") {
    throw Error(ErrorCode::kNotFound, fmt::format("no model file {} - nothing is there, or it is "
                                                  "no file - check the path",
                                                  name_or_path));
  }
  const CatalogEntry entry = find_model(name_or_path);
  fs::path pulled = model_path(entry.name);
  std::error_code error;
  if (is_file(pulled) && fs::file_size(pulled, error) == entry.bytes) return pulled;
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("model {} is not here yet - {} is {} - run: tessera model pull {}", entry.name,
                  pulled.string(), is_file(pulled) ? "of the wrong size" : "missing", entry.name));
}

RemovedModel remove_model(std::string_view name) {
  const fs::path path = model_path(name);
  if (name.find('/') != std::string_view::npos || !is_file(path)) find_model(name);
  if (!fs::exists(path.parent_path())) return {};
  const auto lock = FileLock::try_acquire(lock_path(path));
  if (!lock) {
    throw Error(ErrorCode::kIo, fmt::format("cannot remove {} - it is being pulled - stop that or "
                                            "wait for its end",
                                            name));
  }
  const bool had_partial = remove_partial_pull(path);
  return {.file = fs::remove(path), .partial = had_partial};
}

std::string model_digest(const fs::path& gguf, const std::function<void(uint64_t)>& progress) {
  const Json print = json_of(print_of(gguf));
  if (auto digest = remembered_digest(read_digest_table(), digest_key(gguf), print)) return *digest;
  FileDigest digest;
  for (int i = 0; i < kMaxHashings && !digest.print; ++i) digest = digest_file(gguf, progress);
  if (digest.print) write_digest(gguf, digest.sha256, *digest.print);
  return digest.sha256;
}

// The rename gives the file a new change time, which is the one to remember.
void remember_digest(const fs::path& gguf, const FileDigest& hashed) {
  if (!hashed.print) return;
  const FilePrint now = print_of(gguf);
  FilePrint renamed = *hashed.print;
  renamed.ctime_ns = now.ctime_ns;
  if (now == renamed) write_digest(gguf, hashed.sha256, now);
}

}  // namespace tessera
