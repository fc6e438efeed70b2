#pragma once
// What a GGUF file says of its vocabulary, read without libllama. Thread-safe.
#include <filesystem>
#include <string>

namespace tessera {

struct VocabFile {
  std::string model;          // tokenizer.ggml.model
  std::string chat_template;  // empty when there is none
  std::string digest;         // hex SHA-256 over every tokenizer.ggml.* key with its type and value
};

// Throws Error(kNotFound) when there is no such file, Error(kModel) when it is no GGUF file, has no
// vocabulary, or has one of those faults at which libllama would end the process (a token that
// occurs twice).
VocabFile read_vocab_file(const std::filesystem::path& path);

}  // namespace tessera
