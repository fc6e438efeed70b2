#include "text/vocab_file.h"

#include <fmt/format.h>
#include <gguf.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace tessera {
namespace {

constexpr const char* kTokensKey = "tokenizer.ggml.tokens";

struct GgufDeleter {
  void operator()(gguf_context* gguf) const { gguf_free(gguf); }
};

size_t width_of(gguf_type type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
      return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    default:
      return 8;
  }
}

void append_u64(std::string& out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(value >> shift & 0xFF);
}

void append_string(std::string& out, std::string_view text) {
  append_u64(out, text.size());
  out += text;
}

// Type and value of one key. Strings carry their lengths, so that no two arrays give the same
// bytes.
std::string value_bytes(const gguf_context* gguf, int64_t key) {
  const gguf_type type = gguf_get_kv_type(gguf, key);
  std::string out;
  append_u64(out, type);
  if (type == GGUF_TYPE_STRING) {
    append_string(out, gguf_get_val_str(gguf, key));
    return out;
  }
  if (type != GGUF_TYPE_ARRAY) {
    out.append(static_cast<const char*>(gguf_get_val_data(gguf, key)), width_of(type));
    return out;
  }
  const gguf_type element = gguf_get_arr_type(gguf, key);
  const size_t n = gguf_get_arr_n(gguf, key);
  append_u64(out, element);
  append_u64(out, n);
  if (element == GGUF_TYPE_STRING) {
    for (size_t i = 0; i < n; ++i) append_string(out, gguf_get_arr_str(gguf, key, i));
  } else if (n > 0) {
    out.append(static_cast<const char*>(gguf_get_arr_data(gguf, key)), n * width_of(element));
  }
  return out;
}

std::string vocab_digest(const gguf_context* gguf) {
  std::vector<std::pair<std::string, int64_t>> keys;  // sorted: the order in the file means nothing
  for (int64_t key = 0; key < gguf_get_n_kv(gguf); ++key) {
    const std::string name = gguf_get_key(gguf, key);
    if (name.starts_with("tokenizer.ggml.")) keys.emplace_back(name, key);
  }
  std::sort(keys.begin(), keys.end());

  Sha256 hash;
  for (const auto& [name, key] : keys) hash.field(name, value_bytes(gguf, key));
  return to_hex(hash.digest());
}

std::string string_value(const gguf_context* gguf, const char* name) {
  const int64_t key = gguf_find_key(gguf, name);
  if (key < 0 || gguf_get_kv_type(gguf, key) != GGUF_TYPE_STRING) return {};
  return gguf_get_val_str(gguf, key);
}

void require_distinct_tokens(const gguf_context* gguf, const std::filesystem::path& path) {
  const int64_t key = gguf_find_key(gguf, kTokensKey);
  if (key < 0 || gguf_get_kv_type(gguf, key) != GGUF_TYPE_ARRAY ||
      gguf_get_arr_type(gguf, key) != GGUF_TYPE_STRING || gguf_get_arr_n(gguf, key) == 0) {
    throw Error(ErrorCode::kModel,
                fmt::format("{} has no vocabulary: {} is missing - use a GGUF file of a language "
                            "model, with its tokenizer",
                            path.string(), kTokensKey));
  }
  std::unordered_set<std::string> seen;
  const size_t n = gguf_get_arr_n(gguf, key);
  seen.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    std::string token = gguf_get_arr_str(gguf, key, i);
    if (token.empty()) token = fmt::format("[EMPTY_{}]", i);  // what libllama makes of it
    if (seen.insert(token).second) continue;
    throw Error(
        ErrorCode::kModel,
        fmt::format("{} has a broken vocabulary: token {} ('{}') occurs twice - convert the "
                    "model again",
                    path.string(), i, token));
  }
}

}  // namespace

VocabFile read_vocab_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("there is no model file {} - check the path", path.string()));
  }
  const std::unique_ptr<gguf_context, GgufDeleter> gguf(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (gguf == nullptr) {
    throw Error(ErrorCode::kModel,
                fmt::format("{} is no GGUF file, or is cut short - fetch it again", path.string()));
  }
  require_distinct_tokens(gguf.get(), path);
  const std::string kind = string_value(gguf.get(), "tokenizer.ggml.model");
  if (kind != "llama" && kind != "gpt2") {
    throw Error(ErrorCode::kModel,
                fmt::format("{} has a tokenizer of the kind '{}' - supported are llama (SPM) and "
                            "gpt2 (BPE)",
                            path.string(), kind));
  }
  return {kind, string_value(gguf.get(), "tokenizer.chat_template"), vocab_digest(gguf.get())};
}

}  // namespace tessera
