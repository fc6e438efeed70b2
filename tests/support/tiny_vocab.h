#pragma once
// The vocabularies of the tiny models.
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct TinyVocab {
  std::string model;  // tokenizer.ggml.model
  std::string pre;
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;  // llama_token_type
  std::vector<std::string> merges;
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t unk = -1;  // -1: none
  bool adds_bos = false;
  bool add_space_prefix = false;
  std::string chat_template;  // empty: none
};

// Sentencepiece-like for llama and gemma3, byte-level BPE for qwen2 and qwen3.
TinyVocab make_tiny_vocab(const std::string& arch);

}  // namespace tessera
