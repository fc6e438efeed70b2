#pragma once
// Text to token ids and back, by libllama's vocabulary of a GGUF file.
//
// A segment is tokenised alone: no BOS, no leading space is added, so its ids do not depend on its
// neighbours. Thread-safe after construction: every method is const.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/segment.h"

namespace tessera {

// Whether the text of control tokens in the input becomes those tokens. Only template text may.
enum class ControlTokens { kAsText, kParse };

struct TokenizedText {
  std::vector<int32_t> ids;
  std::vector<TokenRange> bytes;  // range of each token in the input text; no gaps between them
};

class Tokenizer {
 public:
  // Reads only the vocabulary: sentencepiece or byte-level BPE. Throws Error(kModel) when the file
  // has none of those that libllama knows, Error(kNotFound) when there is no such file.
  explicit Tokenizer(const std::filesystem::path& gguf);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  // decode(encode(text, kAsText)) == text, but for characters that the vocabulary has no bytes for
  // (some ASCII control characters in SmolLM2's): those come back as U+FFFD. Texts above 8 KiB are
  // tokenised in blocks, cut behind a line or before a word. Throws Error(kInvalidRequest) naming
  // the byte offset when `text` is not valid UTF-8.
  std::vector<int32_t> encode(std::string_view text, ControlTokens control) const;
  TokenizedText encode_with_offsets(std::string_view text, ControlTokens control) const;

  // Bytes of one token (may be part of a UTF-8 character). Control tokens give their text when
  // `control` is true, nothing otherwise.
  std::string piece(int32_t token, bool control = false) const;
  std::string decode(std::span<const int32_t> ids) const;

  int32_t n_vocab() const;
  int32_t bos() const;               // -1 when there is none
  int32_t eos() const;               // -1 when there is none
  bool adds_bos() const;             // whether prompts of this model start with BOS
  bool is_end(int32_t token) const;  // any end-of-generation token
  // Control, unknown, end-of-generation or user-defined, but for user-defined runs of white space
  // (Gemma's newlines) and single characters, which are plain text. kAsText never gives such a
  // token.
  bool is_control(int32_t token) const;
  std::string chat_template() const;  // Jinja source in the file, may be empty
  std::string digest() const;         // hex SHA-256 over tokens, types, merges, scores and flags

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Turns tokens into text as they come, holding back bytes of characters that are not complete yet.
// Not thread-safe; one per text. The tokenizer must outlive it.
class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(int32_t token);  // complete characters that this token finished
  std::string finish();             // what is left; an incomplete character becomes one U+FFFD

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace tessera
