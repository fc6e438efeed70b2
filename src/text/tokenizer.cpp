#include "text/tokenizer.h"

#include <fmt/format.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "base/log.h"
#include "base/text_util.h"
#include "base/utf8.h"
#include "text/vocab_file.h"

namespace tessera {
namespace {

// Plain text goes to libllama in blocks of at most so many bytes and so many runs of white space.
// Some of its pre-tokenizers recurse once per character of a run, and its search for user-defined
// tokens, which Gemma's runs of white space are, is quadratic in their number; both are harmless at
// this size. Segments of prompts are mostly smaller, and cut nowhere.
constexpr size_t kBlockBytes = 8192;
constexpr size_t kBlockRuns = 256;

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};

// Only the vocabulary. The override keeps libllama from putting a space before the text of
// sentencepiece vocabularies.
std::unique_ptr<llama_model, ModelDeleter> load_vocab(const std::filesystem::path& path) {
  static std::once_flag is_log_set;
  std::call_once(is_log_set, [] {
    llama_log_set([](ggml_log_level level, const char* line,
                     void*) { log_library_line("libllama", level == GGML_LOG_LEVEL_ERROR, line); },
                  nullptr);
  });

  std::array<llama_model_kv_override, 2> overrides{};
  overrides[0].tag = LLAMA_KV_OVERRIDE_TYPE_BOOL;
  std::strncpy(overrides[0].key, "tokenizer.ggml.add_space_prefix", sizeof(overrides[0].key) - 1);
  overrides[0].val_bool = false;
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  params.kv_overrides = overrides.data();
  std::unique_ptr<llama_model, ModelDeleter> model(
      llama_model_load_from_file(path.c_str(), params));
  if (model == nullptr) {
    throw Error(ErrorCode::kModel,
                fmt::format("cannot use the vocabulary of {}: libllama refuses it, its message is "
                            "above - convert the model again, or use another",
                            path.string()));
  }
  return model;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// How long the first block of a text may be.
size_t block_limit(std::string_view text) {
  size_t n_runs = 0;
  for (size_t at = 1; at < std::min(text.size(), kBlockBytes); ++at) {
    const bool is_run =
        text[at] == '\n' ? text[at - 1] != '\n' : text[at] == ' ' && text[at - 1] == ' ';
    n_runs += is_run ? 1 : 0;
    if (n_runs == kBlockRuns) return utf8_floor(text, at);
  }
  return kBlockBytes;
}

// Where to cut a text that is longer than `limit`: behind a line, else before a word, if one begins
// in the second half of the block, else between two characters.
size_t block_end(std::string_view text, size_t limit) {
  const std::string_view block = text.substr(0, limit);
  const size_t line = block.rfind('\n');
  if (line != std::string_view::npos && line + 1 > limit / 2 && !is_space(text[line + 1]))
    return line + 1;
  for (size_t at = limit - 1; at > limit / 2; --at) {
    if (is_space(block[at]) && !is_space(block[at - 1])) return at;
  }
  return utf8_floor(text, limit);
}

size_t first_character(std::string_view text) { return next_utf8(text).length; }

}  // namespace

struct Tokenizer::State {
  struct Special {
    std::string text;
    int32_t id;
  };

  std::unique_ptr<llama_model, ModelDeleter> model;
  const llama_vocab* vocab = nullptr;
  VocabFile file;
  std::vector<bool> is_control;                    // by id
  std::array<std::vector<Special>, 256> specials;  // control tokens by first byte, longest first
  std::array<std::optional<int32_t>, 256> byte_token;  // plain token that stands for one byte

  void index_tokens();
  void require_writable_bytes(const std::filesystem::path& path) const;
  std::string piece(int32_t token, bool control) const;
  std::vector<int32_t> tokenize(std::string_view text) const;
  const Special* special_at(std::string_view text) const;

  // Each appends to `out`, with offsets that start at `base`.
  void encode_parsing(std::string_view text, TokenizedText& out) const;
  void encode_plain(std::string_view text, size_t base, TokenizedText& out) const;
  void encode_block(std::string_view text, size_t base, TokenizedText& out) const;
  void encode_part(std::string_view text, size_t base, TokenizedText& out) const;
  void encode_bytes(std::string_view character, size_t base, TokenizedText& out) const;
  std::vector<size_t> match_pieces(std::string_view text, std::span<const int32_t> ids,
                                   std::vector<size_t>& lengths) const;
};

namespace {

void append_token(TokenizedText& out, int32_t id, size_t begin, size_t length) {
  out.ids.push_back(id);
  out.bytes.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(begin + length)});
}

}  // namespace

void Tokenizer::State::index_tokens() {
  const int32_t n = llama_vocab_n_tokens(vocab);
  is_control.resize(static_cast<size_t>(n));
  for (int32_t id = 0; id < n; ++id) {
    const auto attr = static_cast<uint32_t>(llama_vocab_get_attr(vocab, id));
    const std::string text = piece(id, true);
    // Gemma's vocabulary holds runs of spaces and of newlines as user-defined tokens: those are
    // plain text, and so is a single character.
    const bool is_user_defined = (attr & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0 && !is_blank(text) &&
                                 first_character(text) < text.size();
    is_control[id] = is_user_defined ||
                     (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0 ||
                     llama_vocab_is_eog(vocab, id);
    if (text.empty()) continue;
    const auto first = static_cast<uint8_t>(text[0]);
    if (is_control[id]) {
      specials[first].push_back({text, id});
    } else if (text.size() == 1) {
      byte_token[first] = id;
    }
  }
  for (auto& candidates : specials) {
    std::stable_sort(candidates.begin(), candidates.end(), [](const Special& a, const Special& b) {
      return a.text.size() > b.text.size();
    });
  }
}

// A sentencepiece vocabulary without its byte tokens cannot write every text, and libllama throws
// on those.
void Tokenizer::State::require_writable_bytes(const std::filesystem::path& path) const {
  const bool is_spm = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM;
  const bool is_bpe = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_BPE;
  if (!is_spm && !is_bpe) {
    throw Error(
        ErrorCode::kModel,
        fmt::format("{} has a vocabulary of kind '{}' - supported are sentencepiece ('llama') "
                    "and byte-level BPE ('gpt2')",
                    path.string(), file.model));
  }
  const auto missing = std::find(byte_token.begin(), byte_token.end(), std::nullopt);
  if ((is_spm && missing != byte_token.end()) || !byte_token[' '].has_value()) {
    throw Error(ErrorCode::kModel,
                fmt::format("{} has no token for byte {:#04x} - convert the model again",
                            path.string(), missing - byte_token.begin()));
  }
  // A token may print a byte and not be the one that libllama looks up for it.
  for (int byte = 1; is_spm && byte < 256; ++byte)
    tokenize(std::string(1, static_cast<char>(byte)));
}

std::string Tokenizer::State::piece(int32_t token, bool control) const {
  std::string out(32, '\0');
  int32_t n =
      llama_token_to_piece(vocab, token, out.data(), static_cast<int32_t>(out.size()), 0, control);
  if (n < 0) {
    out.resize(static_cast<size_t>(-n));
    n = llama_token_to_piece(vocab, token, out.data(), static_cast<int32_t>(out.size()), 0,
                             control);
  }
  out.resize(static_cast<size_t>(std::max(n, 0)));
  return out;
}

std::vector<int32_t> Tokenizer::State::tokenize(std::string_view text) const {
  std::vector<int32_t> ids(text.size() + 8);
  const auto size = static_cast<int32_t>(text.size());
  const auto into_ids = [&] {
    return llama_tokenize(vocab, text.data(), size, ids.data(), static_cast<int32_t>(ids.size()),
                          false, false);
  };
  try {
    int32_t n = into_ids();
    if (n < 0) {
      ids.resize(static_cast<size_t>(-n));
      n = into_ids();
    }
    ids.resize(static_cast<size_t>(std::max(n, 0)));
  } catch (const std::out_of_range&) {  // libllama's word for a token that is not there
    throw Error(ErrorCode::kModel,
                "the model's vocabulary lacks a token that its own rules ask for - it cannot write "
                "every text - convert the model again or use another");
  }
  return ids;
}

// The longest control token whose text stands at the start of `text`, or null.
const Tokenizer::State::Special* Tokenizer::State::special_at(std::string_view text) const {
  for (const Special& special : specials[static_cast<uint8_t>(text[0])]) {
    if (text.starts_with(special.text)) return &special;
  }
  return nullptr;
}

void Tokenizer::State::encode_parsing(std::string_view text, TokenizedText& out) const {
  size_t plain_begin = 0;
  size_t at = 0;
  while (at < text.size()) {
    const Special* special = special_at(text.substr(at));
    if (special == nullptr) {
      ++at;
      continue;
    }
    encode_plain(text.substr(plain_begin, at - plain_begin), plain_begin, out);
    append_token(out, special->id, at, special->text.size());
    at += special->text.size();
    plain_begin = at;
  }
  encode_plain(text.substr(plain_begin), plain_begin, out);
}

void Tokenizer::State::encode_plain(std::string_view text, size_t base, TokenizedText& out) const {
  while (!text.empty()) {
    const size_t limit = block_limit(text);
    const size_t end = text.size() <= limit ? text.size() : block_end(text, limit);
    encode_block(text.substr(0, end), base, out);
    text.remove_prefix(end);
    base += end;
  }
}

// Sentencepiece writes a space as U+2581, so that character itself has to go as bytes.
void Tokenizer::State::encode_block(std::string_view text, size_t base, TokenizedText& out) const {
  constexpr std::string_view kSpmSpace = "\xe2\x96\x81";
  size_t begin = 0;
  const bool is_spm = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM;
  size_t at = is_spm ? text.find(kSpmSpace) : std::string_view::npos;
  for (; at != std::string_view::npos; at = text.find(kSpmSpace, begin)) {
    if (begin < at) encode_part(text.substr(begin, at - begin), base + begin, out);
    encode_bytes(kSpmSpace, base + at, out);
    begin = at + kSpmSpace.size();
  }
  if (begin < text.size()) encode_part(text.substr(begin), base + begin, out);
}

// Lengths of the pieces, which cover the text if the answer is empty; else the places where the
// text has to be cut apart. There are two reasons: a control token was made of it (libllama takes
// the text of user-defined tokens for those whatever it is told, and plain merging leads to
// others), or the pieces are another text than the given one (merging may end at the byte token
// named
// "<0x41>" for that text).
std::vector<size_t> Tokenizer::State::match_pieces(std::string_view text,
                                                   std::span<const int32_t> ids,
                                                   std::vector<size_t>& lengths) const {
  std::vector<size_t> cuts;
  size_t at = 0;
  for (const int32_t id : ids) {
    const std::string bytes = piece(id, true);
    if (bytes.empty() || !text.substr(at).starts_with(bytes)) break;
    if (is_control[id]) {
      const size_t begin = utf8_floor(text, at);
      const size_t inside = begin + first_character(text.substr(begin));
      cuts.push_back(inside);
      if (inside >= at + bytes.size())
        cuts.push_back(begin);  // one character: it has to stand alone
    }
    lengths.push_back(bytes.size());
    at += bytes.size();
  }
  if (at < text.size() || lengths.size() < ids.size()) {
    // Halving the rest, not only cutting off its first character, bounds the work on texts made of
    // such places.
    const size_t start = at < text.size() ? utf8_floor(text, at) : 0;
    const size_t middle = utf8_floor(text, start + (text.size() - start) / 2);
    cuts.insert(cuts.end(), {start, middle, start + first_character(text.substr(start))});
  }
  return cuts;
}

void Tokenizer::State::encode_part(std::string_view text, size_t base, TokenizedText& out) const {
  const std::vector<int32_t> ids = tokenize(text);
  std::vector<size_t> lengths;
  std::vector<size_t> cuts = match_pieces(text, ids, lengths);
  if (cuts.empty()) {
    for (size_t i = 0; i < ids.size(); ++i) {
      append_token(out, ids[i], base, lengths[i]);
      base += lengths[i];
    }
    return;
  }
  if (first_character(text) == text.size()) {
    encode_bytes(text, base, out);
    return;
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(text.size());
  size_t begin = 0;
  for (const size_t cut : cuts) {
    if (cut <= begin) continue;
    encode_part(text.substr(begin, cut - begin), base + begin, out);
    begin = cut;
  }
}

// A character that only byte tokens can write. Where the vocabulary lacks one of them (SmolLM2's
// has none for some ASCII control characters) the character is written as U+FFFD, or as a space
// where that is lacking too.
void Tokenizer::State::encode_bytes(std::string_view character, size_t base,
                                    TokenizedText& out) const {
  const auto is_writable = [&](std::string_view bytes) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](char c) { return byte_token[static_cast<uint8_t>(c)].has_value(); });
  };
  if (is_writable(character)) {
    for (const char byte : character)
      append_token(out, *byte_token[static_cast<uint8_t>(byte)], base++, 1);
    return;
  }
  const std::string_view replacement = is_writable("\xef\xbf\xbd") ? "\xef\xbf\xbd" : " ";
  size_t length = character.size();  // all of it belongs to the first token
  for (const char byte : replacement) {
    append_token(out, *byte_token[static_cast<uint8_t>(byte)], base, length);
    base += length;
    length = 0;
  }
}

Tokenizer::Tokenizer(const std::filesystem::path& gguf) : state_(std::make_unique<State>()) {
  state_->file = read_vocab_file(gguf);
  state_->model = load_vocab(gguf);
  state_->vocab = llama_model_get_vocab(state_->model.get());
  state_->index_tokens();
  state_->require_writable_bytes(gguf);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, ControlTokens control) const {
  return encode_with_offsets(text, control).ids;
}

TokenizedText Tokenizer::encode_with_offsets(std::string_view text, ControlTokens control) const {
  if (text.size() > static_cast<size_t>(INT32_MAX)) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("a text of {} bytes is too long - split it below 2 GiB", text.size()));
  }
  if (const std::optional<size_t> invalid = invalid_utf8_offset(text)) {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("the text is not valid UTF-8 at byte {} - convert it to UTF-8", *invalid));
  }
  TokenizedText out;
  if (control == ControlTokens::kParse) {
    state_->encode_parsing(text, out);
  } else {
    state_->encode_plain(text, 0, out);
  }
  return out;
}

std::string Tokenizer::piece(int32_t token, bool control) const {
  if (token < 0 || token >= n_vocab()) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("token {} is not in the vocabulary - ids go from 0 to {}", token,
                            n_vocab() - 1));
  }
  return state_->piece(token, control);
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += piece(id);
  return text;
}

int32_t Tokenizer::n_vocab() const { return llama_vocab_n_tokens(state_->vocab); }
int32_t Tokenizer::bos() const { return llama_vocab_bos(state_->vocab); }
int32_t Tokenizer::eos() const { return llama_vocab_eos(state_->vocab); }
bool Tokenizer::adds_bos() const { return llama_vocab_get_add_bos(state_->vocab) && bos() >= 0; }
bool Tokenizer::is_end(int32_t token) const { return llama_vocab_is_eog(state_->vocab, token); }

bool Tokenizer::is_control(int32_t token) const {
  return token >= 0 && token < n_vocab() && state_->is_control[static_cast<size_t>(token)];
}

std::string Tokenizer::chat_template() const { return state_->file.chat_template; }
std::string Tokenizer::digest() const { return state_->file.digest; }

std::string StreamingDetokenizer::push(int32_t token) {
  held_ += tokenizer_.piece(token);
  return take_whole_characters(held_);
}

std::string StreamingDetokenizer::finish() {
  const bool has_rest = !held_.empty();
  held_.clear();
  return has_rest ? "\xef\xbf\xbd" : "";
}

}  // namespace tessera
