#include "support/tiny_vocab.h"

#include <llama.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

namespace tessera {
namespace {

constexpr const char* kWords[] = {
    "the",   "of",     "and",     "to",     "in",        "is",   "that",     "for",
    "was",   "with",   "passage", "answer", "title",     "text", "question", "number",
    "river", "city",   "city's",  "first",  "from",      "one",  "two",      "three",
    "which", "people", "system",  "user",   "assistant", "You",  "Answer:",  "Passages:",
    "few",   "words",  "short",   "given",  "are",       "it",   "on",       "as",
};

constexpr const char* kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

constexpr const char* kInstTemplate =
    "{{ bos_token }}{% set ns = namespace(head='') %}{% for message in messages %}"
    "{% if message['role'] == 'system' %}{% set ns.head = '<<SYS>>\\n' + message['content'] + "
    "'\\n<</SYS>>\\n\\n' %}"
    "{% elif message['role'] == 'user' %}{{ '[INST] ' + ns.head + message['content'] + ' [/INST]' "
    "}}"
    "{% else %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}";

const std::string kSpace = "\xe2\x96\x81";  // how sentencepiece writes a space

class VocabBuilder {
 public:
  int32_t add(const std::string& token, llama_token_type type, float score = 0.0F) {
    const auto [it, is_new] = ids_.emplace(token, static_cast<int32_t>(vocab.tokens.size()));
    if (!is_new) return it->second;
    vocab.tokens.push_back(token);
    vocab.types.push_back(type);
    vocab.scores.push_back(score);
    return it->second;
  }

  // Pieces are merged in the order in which they were added, so a piece's own parts come first.
  void add_piece(const std::string& piece) {
    add(piece, LLAMA_TOKEN_TYPE_NORMAL, -static_cast<float>(next_rank_++));
  }

  void add_prefixes(const std::string& start, const std::string& word) {
    for (size_t n = 1; n <= word.size(); ++n) add_piece(start + word.substr(0, n));
  }

  TinyVocab vocab;

 private:
  std::map<std::string, int32_t> ids_;
  int next_rank_ = 1;
};

void add_byte_tokens(VocabBuilder& builder) {
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
    builder.add(name, LLAMA_TOKEN_TYPE_BYTE);
  }
}

void add_spm_pieces(VocabBuilder& builder) {
  builder.add_piece(kSpace);
  for (char c = '!'; c <= '~'; ++c) builder.add_piece(std::string(1, c));
  for (const char* c : {"é", "ü", "ß", "日", "本", "語", "…"}) builder.add_piece(c);
  for (const char* word : kWords) builder.add_prefixes(kSpace, word);
  for (const char* word : {"ing", "ed", "er", "日本"}) builder.add_piece(word);
}

TinyVocab make_llama_vocab() {
  VocabBuilder builder;
  builder.vocab.unk = builder.add("<unk>", LLAMA_TOKEN_TYPE_UNKNOWN);
  builder.vocab.bos = builder.add("<s>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.vocab.eos = builder.add("</s>", LLAMA_TOKEN_TYPE_CONTROL);
  add_byte_tokens(builder);
  builder.add("[TOOL]", LLAMA_TOKEN_TYPE_USER_DEFINED);
  add_spm_pieces(builder);
  // Steps on the way to the text of control and byte tokens: plain merging reaches their ids then.
  for (const char* trap : {"<s", "</", "</s", "<0", "<0x", "<0x4", "<0x41"})
    builder.add_piece(trap);
  builder.vocab.add_space_prefix = true;
  builder.vocab.chat_template = kInstTemplate;
  return builder.vocab;
}

TinyVocab make_gemma_vocab() {
  VocabBuilder builder;
  builder.add("<pad>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.vocab.eos = builder.add("<eos>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.vocab.bos = builder.add("<bos>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.vocab.unk = builder.add("<unk>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.add("[multimodal]", LLAMA_TOKEN_TYPE_USER_DEFINED);
  builder.add("<start_of_turn>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.add("<end_of_turn>", LLAMA_TOKEN_TYPE_CONTROL);
  // As in the real files: runs of white space are user-defined, and written with plain spaces.
  for (int n = 1; n <= 4; ++n) builder.add(std::string(n, '\n'), LLAMA_TOKEN_TYPE_USER_DEFINED);
  for (int n = 2; n <= 8; ++n) builder.add(std::string(n, ' '), LLAMA_TOKEN_TYPE_USER_DEFINED);
  add_byte_tokens(builder);
  add_spm_pieces(builder);
  for (const char* trap : {"<e", "<eo", "<eos"}) builder.add_piece(trap);
  return builder.vocab;
}

std::string utf8_of(int code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// The GPT-2 alphabet: printable bytes stand for themselves, the others are moved to code points
// from 256 on.
std::array<std::string, 256> byte_alphabet() {
  std::array<std::string, 256> alphabet;
  int moved = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[byte] = utf8_of(is_printable ? byte : moved++);
  }
  return alphabet;
}

TinyVocab make_bpe_vocab() {
  VocabBuilder builder;
  const auto alphabet = byte_alphabet();
  for (const std::string& symbol : alphabet) builder.add(symbol, LLAMA_TOKEN_TYPE_NORMAL);
  const auto merge = [&](const std::string& left, const std::string& right) {
    const std::string rule = left + " " + right;
    auto& merges = builder.vocab.merges;
    if (std::find(merges.begin(), merges.end(), rule) != merges.end()) return;
    merges.push_back(rule);
    builder.add(left + right, LLAMA_TOKEN_TYPE_NORMAL);
  };
  const auto merge_word = [&](const std::string& word) {
    std::string left = alphabet[static_cast<uint8_t>(word[0])];
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string& right = alphabet[static_cast<uint8_t>(word[i])];
      merge(left, right);
      left += right;
    }
  };
  for (const char* word : kWords) merge_word(std::string(" ") + word);
  // A first and second byte without the third: tokens that hold part of a character.
  for (const char* word :
       {"ing", "ed", "\n\n", "  ", "    ", "日", "\xe6\x9c", "é", "\xf0\x9f\x98"})
    merge_word(word);
  builder.vocab.bos = builder.add("<|endoftext|>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.add("<|im_start|>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.vocab.eos = builder.add("<|im_end|>", LLAMA_TOKEN_TYPE_CONTROL);
  builder.add("<tool_call>", LLAMA_TOKEN_TYPE_USER_DEFINED);
  builder.vocab.chat_template = kChatMl;
  return builder.vocab;
}

}  // namespace

TinyVocab make_tiny_vocab(const std::string& arch) {
  const bool is_spm = arch == "llama" || arch == "gemma3";
  TinyVocab vocab = arch == "llama"    ? make_llama_vocab()
                    : arch == "gemma3" ? make_gemma_vocab()
                                       : make_bpe_vocab();
  vocab.model = is_spm ? "llama" : "gpt2";
  vocab.pre = is_spm ? "default" : "qwen2";
  vocab.adds_bos = is_spm;
  return vocab;
}

}  // namespace tessera
