#pragma once
// Tiny random GGUF models for tests: every key and tensor that libllama asks of the family, a
// vocabulary of some hundred tokens, and weights that keep logits finite and varied. Same spec,
// same bytes.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include "base/file.h"

struct gguf_context;

namespace tessera {

struct TinySpec {
  std::string arch = "llama";  // llama, qwen2, qwen3, gemma3
  uint64_t seed = 1;
  std::string weight_type =
      "f16";         // f32 f16 q8_0 q4_0 q4_1 q5_0 q4_k q6_k; norms and biases are always f32
  int n_layers = 0;  // 0: 4, and 7 for gemma3, whose layer 5 is its first global one
  int sliding_window = 32;  // gemma3
  int n_ctx = 4096;
  std::string rope_scaling = {};  // "", "linear", "yarn"
  float rope_factor = 4.0F;
  bool rope_freqs = false;  // llama: rope_freqs.weight with factors from 1 to 8, as in Llama 3
  bool tied_head = false;   // no output.weight: the embedding is the head
  // Last word on the metadata before the file is written, for tests that need another vocabulary or
  // a broken file.
  std::function<void(gguf_context*)> edit_metadata = {};
};

// GoogleTest would print the bytes.
inline void PrintTo(const TinySpec& spec, std::ostream* out) {
  *out << spec.arch << ' ' << spec.weight_type;
}

// The same for every model of a test run.
inline constexpr int kTinyEmbedDim = 256;
inline constexpr int kTinyFfnDim = 512;
inline constexpr int kTinyHeads = 4;
inline constexpr int kTinyKvHeads = 2;
inline constexpr int kTinyHeadDim = 64;

// Throws Error(kInvalidRequest) for an unknown family or type, Error(kIo) when the file cannot be
// written.
void write_tiny_gguf(const std::filesystem::path& path, const TinySpec& spec);

// A tiny model in a folder of its own, removed with the object.
class TinyModelFile {
 public:
  explicit TinyModelFile(const TinySpec& spec);

  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchFolder folder_;
  std::filesystem::path path_;
};

// One of the default spec, written once for all tests of a program.
const TinyModelFile& shared_model_file();

}  // namespace tessera
