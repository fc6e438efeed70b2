#include "support/tiny_gguf.h"

#include <ggml.h>
#include <gguf.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "support/tiny_vocab.h"

namespace tessera {
namespace {

struct GgufDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
struct GgmlDeleter {
  void operator()(ggml_context* context) const { ggml_free(context); }
};

ggml_type type_of(const std::string& name) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                               GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
    std::string type_name = ggml_type_name(type);
    for (char& c : type_name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (type_name == name) return type;
  }
  throw Error(ErrorCode::kInvalidRequest, "tiny model: unknown weight type " + name);
}

// Normal deviates that depend on the seed and the tensor's name alone, so that two weight types of
// one seed hold the same numbers.
class Noise {
 public:
  Noise(uint64_t seed, const std::string& name) : state_(seed * 0x9E3779B97F4A7C15ULL) {
    for (const char c : name) state_ = (state_ ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  }

  float normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * uniform()));
  }

 private:
  double uniform() {  // splitmix64, upper 53 bits
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
  }

  uint64_t state_;
};

class TinyWriter {
 public:
  explicit TinyWriter(const TinySpec& spec)
      : spec_(spec),
        n_layers_(spec.n_layers > 0       ? spec.n_layers
                  : spec.arch == "gemma3" ? 7
                                          : 4),
        weight_type_(type_of(spec.weight_type)),
        gguf_(gguf_init_empty()),
        tensors_(ggml_init({.mem_size = arena_bytes(), .mem_buffer = nullptr, .no_alloc = false})) {
  }

  void write(const std::filesystem::path& path) {
    const TinyVocab vocab = make_tiny_vocab(spec_.arch);
    set_hparams();
    set_vocab(vocab);
    add_tensors(static_cast<int64_t>(vocab.tokens.size()));
    if (spec_.edit_metadata) spec_.edit_metadata(gguf_.get());
    if (!gguf_write_to_file(gguf_.get(), path.c_str(), false)) {
      throw Error(ErrorCode::kIo, "cannot write the tiny model " + path.string());
    }
  }

 private:
  // Room for everything in f32, and 64 KiB of tensor headers per layer.
  size_t arena_bytes() const {
    const size_t per_layer =
        4 * kTinyEmbedDim * (3 * kTinyFfnDim + 3 * kTinyEmbedDim) + (64U << 10);
    return static_cast<size_t>(n_layers_) * per_layer + size_t{2} * 4 * kTinyEmbedDim * 1024 +
           (1U << 20);
  }

  std::string key(const char* name) const { return spec_.arch + "." + name; }
  void set_u32(const char* name, int value) {
    gguf_set_val_u32(gguf_.get(), key(name).c_str(), static_cast<uint32_t>(value));
  }
  void set_f32(const char* name, float value) {
    gguf_set_val_f32(gguf_.get(), key(name).c_str(), value);
  }

  void set_hparams() {
    gguf_set_val_str(gguf_.get(), "general.architecture", spec_.arch.c_str());
    gguf_set_val_str(gguf_.get(), "general.name", ("tiny random " + spec_.arch).c_str());
    set_u32("context_length", spec_.n_ctx);
    set_u32("embedding_length", kTinyEmbedDim);
    set_u32("block_count", n_layers_);
    set_u32("feed_forward_length", kTinyFfnDim);
    set_u32("attention.head_count", kTinyHeads);
    set_u32("attention.head_count_kv", kTinyKvHeads);
    set_f32("attention.layer_norm_rms_epsilon", 1e-6F);
    set_f32("rope.freq_base", spec_.arch == "llama" ? 10000.0F : 1000000.0F);
    if (spec_.arch == "llama") set_u32("rope.dimension_count", kTinyHeadDim);
    if (spec_.arch == "qwen3" || spec_.arch == "gemma3") {
      set_u32("attention.key_length", kTinyHeadDim);
      set_u32("attention.value_length", kTinyHeadDim);
    }
    if (spec_.arch == "gemma3") set_u32("attention.sliding_window", spec_.sliding_window);
    if (spec_.rope_scaling.empty()) return;
    gguf_set_val_str(gguf_.get(), key("rope.scaling.type").c_str(), spec_.rope_scaling.c_str());
    set_f32("rope.scaling.factor", spec_.rope_factor);
    if (spec_.rope_scaling == "yarn") {
      set_u32("rope.scaling.original_context_length",
              static_cast<int>(static_cast<float>(spec_.n_ctx) / spec_.rope_factor));
    }
  }

  void set_strings(const char* name, const std::vector<std::string>& values) {
    std::vector<const char*> pointers;
    for (const std::string& value : values) pointers.push_back(value.c_str());
    gguf_set_arr_str(gguf_.get(), name, pointers.data(), pointers.size());
  }

  void set_vocab(const TinyVocab& vocab) {
    gguf_context* gguf = gguf_.get();
    gguf_set_val_str(gguf, "tokenizer.ggml.model", vocab.model.c_str());
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", vocab.pre.c_str());
    set_strings("tokenizer.ggml.tokens", vocab.tokens);
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocab.types.data(),
                      vocab.types.size());
    if (vocab.merges.empty()) {
      gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, vocab.scores.data(),
                        vocab.scores.size());
    } else {
      set_strings("tokenizer.ggml.merges", vocab.merges);
    }
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", static_cast<uint32_t>(vocab.bos));
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", static_cast<uint32_t>(vocab.eos));
    if (vocab.unk >= 0)
      gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(vocab.unk));
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", vocab.adds_bos);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", vocab.add_space_prefix);
    if (!vocab.chat_template.empty()) {
      gguf_set_val_str(gguf, "tokenizer.chat_template", vocab.chat_template.c_str());
    }
  }

  // Matrices are ne[n_in, n_out].
  void add_matrix(const std::string& name, int64_t n_in, int64_t n_out, float scale) {
    ggml_tensor* tensor = ggml_new_tensor_2d(tensors_.get(), weight_type_, n_in, n_out);
    std::vector<float> values(static_cast<size_t>(n_in * n_out));
    Noise noise(spec_.seed, name);
    for (float& value : values) value = scale * noise.normal();
    ggml_quantize_chunk(weight_type_, values.data(), tensor->data, 0, n_out, n_in, nullptr);
    add(name, tensor);
  }

  void add_vector(const std::string& name, int64_t n, float mean, float scale) {
    ggml_tensor* tensor = ggml_new_tensor_1d(tensors_.get(), GGML_TYPE_F32, n);
    Noise noise(spec_.seed, name);
    for (int64_t i = 0; i < n; ++i)
      static_cast<float*>(tensor->data)[i] = mean + scale * noise.normal();
    add(name, tensor);
  }

  void add(const std::string& name, ggml_tensor* tensor) {
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(gguf_.get(), tensor);
  }

  // Vectors of norm weights; GGUF holds Gemma's with 1 already added.
  void add_norm(const std::string& name, int64_t n) { add_vector(name + ".weight", n, 1.0F, 0.1F); }

  static float fan_in(int64_t n) { return 1.0F / std::sqrt(static_cast<float>(n)); }

  void add_tensors(int64_t n_vocab) {
    // An embedding that is the head too, or that the graph scales by sqrt(embed_dim), is small.
    const bool is_small = spec_.tied_head || spec_.arch == "gemma3";
    add_matrix("token_embd.weight", kTinyEmbedDim, n_vocab,
               is_small ? 2 * fan_in(kTinyEmbedDim) : 0.7F);
    add_norm("output_norm", kTinyEmbedDim);
    if (!spec_.tied_head)
      add_matrix("output.weight", kTinyEmbedDim, n_vocab, 2 * fan_in(kTinyEmbedDim));
    if (spec_.rope_freqs) add_rope_freqs();
    for (int layer = 0; layer < n_layers_; ++layer) add_layer("blk." + std::to_string(layer) + ".");
  }

  void add_rope_freqs() {
    constexpr int n = kTinyHeadDim / 2;
    ggml_tensor* tensor = ggml_new_tensor_1d(tensors_.get(), GGML_TYPE_F32, n);
    for (int i = 0; i < n; ++i) {
      static_cast<float*>(tensor->data)[i] =
          1.0F + 7.0F * static_cast<float>(i) / static_cast<float>(n - 1);
    }
    add("rope_freqs.weight", tensor);
  }

  void add_layer(const std::string& blk) {
    constexpr int64_t q_dim = int64_t{kTinyHeads} * kTinyHeadDim;
    constexpr int64_t kv_dim = int64_t{kTinyKvHeads} * kTinyHeadDim;
    add_norm(blk + "attn_norm", kTinyEmbedDim);
    add_matrix(blk + "attn_q.weight", kTinyEmbedDim, q_dim, fan_in(kTinyEmbedDim));
    add_matrix(blk + "attn_k.weight", kTinyEmbedDim, kv_dim, fan_in(kTinyEmbedDim));
    add_matrix(blk + "attn_v.weight", kTinyEmbedDim, kv_dim, fan_in(kTinyEmbedDim));
    add_matrix(blk + "attn_output.weight", q_dim, kTinyEmbedDim, fan_in(q_dim));
    if (spec_.arch == "qwen2") {
      add_vector(blk + "attn_q.bias", q_dim, 0.0F, 0.3F);
      add_vector(blk + "attn_k.bias", kv_dim, 0.0F, 0.3F);
      add_vector(blk + "attn_v.bias", kv_dim, 0.0F, 0.3F);
    }
    if (spec_.arch == "qwen3" || spec_.arch == "gemma3") {
      add_norm(blk + "attn_q_norm", kTinyHeadDim);
      add_norm(blk + "attn_k_norm", kTinyHeadDim);
    }
    if (spec_.arch == "gemma3") {
      add_norm(blk + "post_attention_norm", kTinyEmbedDim);
      add_norm(blk + "post_ffw_norm", kTinyEmbedDim);
    }
    add_norm(blk + "ffn_norm", kTinyEmbedDim);
    add_matrix(blk + "ffn_gate.weight", kTinyEmbedDim, kTinyFfnDim, fan_in(kTinyEmbedDim));
    add_matrix(blk + "ffn_up.weight", kTinyEmbedDim, kTinyFfnDim, fan_in(kTinyEmbedDim));
    add_matrix(blk + "ffn_down.weight", kTinyFfnDim, kTinyEmbedDim, fan_in(kTinyFfnDim));
  }

  const TinySpec& spec_;
  int n_layers_;
  ggml_type weight_type_;
  std::unique_ptr<gguf_context, GgufDeleter> gguf_;
  std::unique_ptr<ggml_context, GgmlDeleter> tensors_;
};

}  // namespace

void write_tiny_gguf(const std::filesystem::path& path, const TinySpec& spec) {
  if (spec.arch != "llama" && spec.arch != "qwen2" && spec.arch != "qwen3" &&
      spec.arch != "gemma3") {
    throw Error(ErrorCode::kInvalidRequest, "tiny model: unknown family " + spec.arch);
  }
  TinyWriter(spec).write(path);
}

TinyModelFile::TinyModelFile(const TinySpec& spec)
    : folder_(std::filesystem::temp_directory_path()),
      path_(folder_.path() / (spec.arch + ".gguf")) {
  write_tiny_gguf(path_, spec);
}

const TinyModelFile& shared_model_file() {
  static const TinyModelFile file(TinySpec{});
  return file;
}

}  // namespace tessera
