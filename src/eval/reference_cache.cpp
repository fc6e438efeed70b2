#include "eval/reference_cache.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "engine/compare.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Bytes = std::span<const std::byte>;

constexpr std::string_view kMagic = "TSRAREF1";  // with the version of the format

// Stands in front of the fields (JSON) and the logits (f32).
struct FileHeader {
  std::array<char, 8> magic = {};
  uint64_t n_field_bytes = 0;
  uint64_t n_logits = 0;
  uint64_t field_sum = 0;  // XXH3
  uint64_t logit_sum = 0;
};
static_assert(std::is_trivially_copyable_v<FileHeader> && sizeof(FileHeader) == 40);

std::string fields_of(const std::string& key, const FullPrefill& r) {
  const json fields = {{"key", key},           {"answer", r.answer},
                       {"tokens", r.tokens},   {"gold_nll", r.gold_nll},
                       {"ttft_ms", r.ttft_ms}, {"prompt_tokens", r.n_prompt_tokens}};
  return fields.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<FullPrefill> parse_fields(Bytes bytes, const std::string& key) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const json fields = json::parse(text, text + bytes.size(), nullptr, false);
  try {
    if (fields.at("key") != key) return std::nullopt;
    FullPrefill out;
    fields.at("answer").get_to(out.answer);
    fields.at("tokens").get_to(out.tokens);
    fields.at("gold_nll").get_to(out.gold_nll);
    fields.at("ttft_ms").get_to(out.ttft_ms);
    fields.at("prompt_tokens").get_to(out.n_prompt_tokens);
    return out;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// Whether the engine could have given it: what reads it relies on that.
bool could_be(const FullPrefill& r, const ReferenceShape& shape) {
  // As Engine::forced_logits: the prompt's last row, and one for each token that is fed.
  const size_t n_fed = std::min(std::max<size_t>(1, r.tokens.size()) - 1,
                                static_cast<size_t>(std::max(0, shape.n_room)));
  return r.logits.size() == (1 + n_fed) * static_cast<size_t>(shape.n_vocab) &&
         r.tokens.size() <= static_cast<size_t>(kCompareTokens) && r.ttft_ms > 0 &&
         r.n_prompt_tokens > 0 && std::all_of(r.tokens.begin(), r.tokens.end(), [&](int32_t token) {
           return token >= 0 && token < shape.n_vocab;
         });
}

}  // namespace

std::vector<std::byte> encode_reference(const std::string& key, const FullPrefill& reference) {
  const std::string fields = fields_of(key, reference);
  const Bytes field_bytes = std::as_bytes(std::span(fields));
  const Bytes logit_bytes = std::as_bytes(std::span(reference.logits));
  FileHeader header;
  std::copy(kMagic.begin(), kMagic.end(), header.magic.begin());
  header.n_field_bytes = field_bytes.size();
  header.n_logits = reference.logits.size();
  header.field_sum = xxh3_64(field_bytes);
  header.logit_sum = xxh3_64(logit_bytes);
  const Bytes header_bytes = std::as_bytes(std::span(&header, 1));
  std::vector<std::byte> out;
  out.reserve(header_bytes.size() + field_bytes.size() + logit_bytes.size());
  for (const Bytes piece : {header_bytes, field_bytes, logit_bytes})
    out.insert(out.end(), piece.begin(), piece.end());
  return out;
}

std::optional<FullPrefill> decode_reference(Bytes bytes, const std::string& key,
                                            const ReferenceShape& shape) {
  FileHeader header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes = bytes.subspan(sizeof(header));
  if (std::string_view(header.magic.data(), header.magic.size()) != kMagic ||
      header.n_field_bytes > bytes.size()) {
    return std::nullopt;
  }
  const Bytes fields = bytes.first(header.n_field_bytes);
  const Bytes logits = bytes.subspan(header.n_field_bytes);
  if (logits.size() % sizeof(float) != 0 || logits.size() / sizeof(float) != header.n_logits ||
      xxh3_64(fields) != header.field_sum || xxh3_64(logits) != header.logit_sum) {
    return std::nullopt;
  }
  std::optional<FullPrefill> out = parse_fields(fields, key);
  if (!out) return std::nullopt;
  out->logits.resize(header.n_logits);
  if (!logits.empty()) std::memcpy(out->logits.data(), logits.data(), logits.size());
  if (!could_be(*out, shape)) return std::nullopt;
  return out;
}

std::vector<ReferenceFile> reference_files(const fs::path& dir) {
  std::vector<ReferenceFile> out;
  std::error_code failed;
  for (fs::directory_iterator it(dir, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code gone;  // another process may remove it while we look
    const bool is_kept = it->symlink_status(gone).type() == fs::file_type::regular &&
                         !it->path().filename().string().starts_with('.');  // that is being written
    if (!is_kept) continue;
    const uint64_t bytes = it->file_size(gone);
    const fs::file_time_type written = gone ? fs::file_time_type() : it->last_write_time(gone);
    if (!gone) out.push_back({it->path(), bytes, written});
  }
  std::ranges::sort(out, {}, &ReferenceFile::written);
  return out;
}

ReferenceCache::ReferenceCache(fs::path dir, uint64_t limit_bytes)
    : dir_(std::move(dir)), limit_bytes_(limit_bytes) {
  if (!dir_.empty()) sweep_temp_files(dir_);
}

std::optional<FullPrefill> ReferenceCache::find(const std::string& key,
                                                const ReferenceShape& shape) const {
  if (dir_.empty()) return std::nullopt;
  const std::optional<std::vector<std::byte>> bytes = read_file(dir_ / key);
  return bytes ? decode_reference(*bytes, key, shape) : std::nullopt;
}

bool ReferenceCache::make_room(const std::string& key, uint64_t n_bytes) const {
  if (n_bytes > limit_bytes_) return false;
  std::vector<ReferenceFile> files = reference_files(dir_);
  std::erase_if(files, [&](const ReferenceFile& f) { return f.path.filename() == key; });
  uint64_t total = n_bytes;
  for (const ReferenceFile& file : files) total += file.bytes;
  for (const ReferenceFile& file : files) {
    if (total <= limit_bytes_) break;
    std::error_code failed;
    fs::remove(file.path, failed);
    if (!failed) total -= file.bytes;
  }
  return total <= limit_bytes_;
}

bool ReferenceCache::put(const std::string& key, const FullPrefill& reference) const {
  if (dir_.empty()) return false;
  const std::vector<std::byte> bytes = encode_reference(key, reference);
  if (!make_room(key, bytes.size())) return false;
  const Bytes piece = bytes;
  std::string error;
  if (try_make_private_dir(dir_, error) && write_file_atomic(dir_ / key, {&piece, 1}, error))
    return true;
  spdlog::warn("full prefill's answer is not kept for the next run: {}", error);
  return false;
}

}  // namespace tessera
