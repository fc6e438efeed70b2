#include "model/weights.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "model/layout.h"

namespace tessera {
namespace {

// A tensor to load, and where its pointer goes.
struct Wanted {
  TensorSpec spec;
  ggml_tensor** slot = nullptr;
};

struct SuffixSlot {
  std::string_view suffix;
  ggml_tensor* LayerWeights::*member;
};

// GGUF's names of the tensors of a layer (blk.N.SUFFIX).
constexpr SuffixSlot kLayerTensors[] = {
    {"attn_norm.weight", &LayerWeights::attn_norm},
    {"attn_q.weight", &LayerWeights::wq},
    {"attn_k.weight", &LayerWeights::wk},
    {"attn_v.weight", &LayerWeights::wv},
    {"attn_output.weight", &LayerWeights::wo},
    {"ffn_norm.weight", &LayerWeights::ffn_norm},
    {"ffn_gate.weight", &LayerWeights::ffn_gate},
    {"ffn_up.weight", &LayerWeights::ffn_up},
    {"ffn_down.weight", &LayerWeights::ffn_down},
    {"attn_q.bias", &LayerWeights::bq},
    {"attn_k.bias", &LayerWeights::bk},
    {"attn_v.bias", &LayerWeights::bv},
    {"attn_output.bias", &LayerWeights::bo},
    {"attn_q_norm.weight", &LayerWeights::q_norm},
    {"attn_k_norm.weight", &LayerWeights::k_norm},
    {"post_attention_norm.weight", &LayerWeights::attn_post_norm},
    {"ffn_gate.bias", &LayerWeights::ffn_gate_bias},
    {"ffn_up.bias", &LayerWeights::ffn_up_bias},
    {"ffn_down.bias", &LayerWeights::ffn_down_bias},
    {"post_ffw_norm.weight", &LayerWeights::ffn_post_norm},
};
constexpr size_t kCommonTensors = 9;  // the first rows, which every family has

struct Shape {
  int64_t ne0;
  int64_t ne1;
};

Shape shape_of(std::string_view suffix, const ModelConfig& c) {
  const int64_t q_dim = int64_t{c.n_heads} * c.head_dim;
  const int64_t kv_dim = c.kv_dim();
  if (suffix == "attn_q.weight") return {c.embed_dim, q_dim};
  if (suffix == "attn_k.weight" || suffix == "attn_v.weight") return {c.embed_dim, kv_dim};
  if (suffix == "attn_output.weight") return {q_dim, c.embed_dim};
  if (suffix == "ffn_gate.weight" || suffix == "ffn_up.weight") return {c.embed_dim, c.ffn_dim};
  if (suffix == "ffn_down.weight") return {c.ffn_dim, c.embed_dim};
  if (suffix == "attn_q.bias") return {q_dim, 1};
  if (suffix == "attn_k.bias" || suffix == "attn_v.bias") return {kv_dim, 1};
  if (suffix == "attn_q_norm.weight" || suffix == "attn_k_norm.weight") return {c.head_dim, 1};
  if (suffix == "ffn_gate.bias" || suffix == "ffn_up.bias") return {c.ffn_dim, 1};
  return {c.embed_dim, 1};
}

ggml_tensor* LayerWeights::*member_of(std::string_view suffix) {
  const auto* row = std::find_if(std::begin(kLayerTensors), std::end(kLayerTensors),
                                 [&](const SuffixSlot& s) { return s.suffix == suffix; });
  CHECK(row != std::end(kLayerTensors));
  return row->member;
}

std::vector<Wanted> wanted_tensors(Model::State& state) {
  const ModelConfig& c = state.config;
  std::vector<Wanted> out;
  const auto add = [&out](std::string name, Shape shape, bool required, ggml_tensor*& slot) {
    out.push_back({TensorSpec{std::move(name), {shape.ne0, shape.ne1}, required}, &slot});
  };
  add("token_embd.weight", {c.embed_dim, c.n_vocab}, true, state.token_embed);
  add("output_norm.weight", {c.embed_dim, 1}, true, state.output_norm);
  add("output.weight", {c.embed_dim, c.n_vocab}, false, state.output);
  add("output.bias", {c.n_vocab, 1}, false, state.output_bias);
  add("rope_freqs.weight", {c.layers.front().rope.n_rot / 2, 1}, false, state.rope_factors);
  state.layers.resize(static_cast<size_t>(c.n_layers));
  for (int32_t i = 0; i < c.n_layers; ++i) {
    LayerWeights& layer = state.layers[static_cast<size_t>(i)];
    const auto add_layer = [&](std::string_view suffix, bool required) {
      add(fmt::format("blk.{}.{}", i, suffix), shape_of(suffix, c), required,
          layer.*member_of(suffix));
    };
    for (size_t t = 0; t < kCommonTensors; ++t) add_layer(kLayerTensors[t].suffix, true);
    for (const Architecture::Extra& extra : state.arch->extras())
      add_layer(extra.suffix, extra.required);
  }
  return out;
}

// A tensor that the graph would not use means a model that it would compute wrongly.
void refuse_unused(const GgufFile& file, const std::vector<Wanted>& wanted) {
  std::set<std::string_view> names;
  for (const Wanted& w : wanted) names.insert(w.spec.name);
  for (const GgufFile::Tensor& t : file.tensors()) {
    if (!names.contains(t.name)) {
      file.fail(
          t.name,
          fmt::format("is a tensor that the {} graph does not use: this variant is not supported",
                      file.arch()));
    }
  }
}

bool is_matrix(const GgufFile::Tensor& t) { return t.ne[1] > 1; }

// A pass over the weights touches every page of them: with pages of 4 KiB that is a miss in the
// translation cache each, 3% of a prefill of the 1.5B. Only advice: where it is refused nothing is
// lost.
void prefer_huge_pages(void* memory, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = (page - reinterpret_cast<uintptr_t>(memory) % page) % page;
  if (bytes < before + page) return;
  ::madvise(static_cast<std::byte*>(memory) + before, (bytes - before) / page * page,
            MADV_HUGEPAGE);
}

// Type in memory. Vectors are added and multiplied as f32; slow matrix types become Q8_0 unless
// they are to be kept.
ggml_type type_in_use(const GgufFile::Tensor& t, const LoadOptions& options, bool multiplied) {
  if (!is_matrix(t)) return GGML_TYPE_F32;
  const bool slow = t.type == GGML_TYPE_Q4_1 || t.type == GGML_TYPE_Q5_0;
  if (multiplied && slow && !options.keep_file_types) return GGML_TYPE_Q8_0;
  return t.type;
}

// One row of `n_cols` values from one type to another, by way of f32. `scratch` has room for them.
void convert_row(ggml_type from, const std::byte* source, ggml_type to, std::byte* target,
                 std::span<float> scratch) {
  const auto n_cols = static_cast<int64_t>(scratch.size());
  float* floats = to == GGML_TYPE_F32 ? reinterpret_cast<float*>(target) : scratch.data();
  if (from == GGML_TYPE_F32) {
    std::memcpy(floats, source, scratch.size_bytes());
  } else {
    ggml_get_type_traits(from)->to_float(source, floats, n_cols);
  }
  if (to != GGML_TYPE_F32) ggml_quantize_chunk(to, floats, target, 0, 1, n_cols, nullptr);
}

// Rows of a tensor, from the file's type to another one, on all threads.
void convert_rows(const GgufFile::Tensor& from, std::span<const std::byte> in, ggml_type to,
                  std::span<std::byte> out, int32_t n_threads) {
  const int64_t n_rows = from.ne[1] * from.ne[2] * from.ne[3];
  const int64_t n_cols = from.ne[0];
  const size_t in_row = ggml_row_size(from.type, n_cols);
  const size_t out_row = ggml_row_size(to, n_cols);
  const auto work = [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(static_cast<size_t>(n_cols));
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      convert_row(from.type, in.data() + r * in_row, to, out.data() + r * out_row, scratch);
    }
  };
  if (n_rows < 64) {
    work(0, n_rows);
    return;
  }
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(n_threads));
  for (int32_t i = 0; i < n_threads; ++i)
    threads.emplace_back(work, n_rows * i / n_threads, n_rows * (i + 1) / n_threads);
}

class Loader {
 public:
  Loader(const GgufFile& file, const LoadOptions& options, Model::State& state)
      : file_(file),
        options_(options),
        state_(state),
        chooser_(options.profile_dir, options.n_threads) {}

  void run() {
    std::vector<Wanted> wanted = wanted_tensors(state_);
    refuse_unused(file_, wanted);
    const size_t overhead = ggml_tensor_overhead() * (wanted.size() + 1);
    for (size_t i = 0; i < 2; ++i) {
      state_.contexts.emplace_back(
          ggml_init({.mem_size = overhead, .mem_buffer = nullptr, .no_alloc = true}));
    }
    for (Wanted& w : wanted) create(w);
    chooser_.save();
    allocate();
    for (const auto& [source, tensor] : made_) fill(*source, tensor);
    if (state_.output == nullptr) state_.output = state_.token_embed;
  }

 private:
  void create(Wanted& w) {
    const GgufFile::Tensor* t = file_.find_tensor(w.spec.name);
    if (t == nullptr) {
      if (w.spec.required) file_.fail(w.spec.name, "is missing");
      return;
    }
    if (t->ne[0] != w.spec.ne[0] || t->ne[1] != w.spec.ne[1] || t->ne[2] != 1 || t->ne[3] != 1) {
      file_.fail(t->name, fmt::format("has shape [{}, {}, {}, {}], [{}, {}] is needed", t->ne[0],
                                      t->ne[1], t->ne[2], t->ne[3], w.spec.ne[0], w.spec.ne[1]));
    }
    if (t->type != GGML_TYPE_F32 && ggml_get_type_traits(t->type)->to_float == nullptr) {
      file_.fail(t->name, fmt::format("is of type {}, which cannot be computed with",
                                      ggml_type_name(t->type)));
    }
    const bool is_embedding = t->name == "token_embd.weight";
    const bool multiplied = !is_embedding || file_.find_tensor("output.weight") == nullptr;
    const ggml_type type = type_in_use(*t, options_, multiplied);
    // Embedding rows are looked up, which repacked weights cannot do; a tied head shares them.
    const bool repack = is_matrix(*t) && !is_embedding && wants_repack({type, t->ne[0], t->ne[1]});
    if (is_matrix(*t)) {
      state_.type_counts[ggml_type_name(type)] += 1;
      state_.repacked[ggml_type_name(type)] |= repack;
    }
    *w.slot = ggml_new_tensor_2d(state_.contexts[repack ? 1 : 0].get(), type, t->ne[0], t->ne[1]);
    ggml_set_name(*w.slot, t->name.c_str());
    made_.emplace_back(t, *w.slot);
  }

  bool wants_repack(const MatrixShape& shape) {
    switch (options_.layout) {
      case WeightLayout::kPlain:
        return false;
      case WeightLayout::kRepacked:
        return can_repack(shape);
      case WeightLayout::kMeasured:
        return chooser_.prefers_repack(shape);
    }
    return false;
  }

  void allocate() {
    for (size_t i = 0; i < state_.contexts.size(); ++i) {
      if (ggml_get_first_tensor(state_.contexts[i].get()) == nullptr) continue;
      ggml_backend_buffer_type_t type =
          i == 0 ? ggml_backend_cpu_buffer_type() : repack_buffer_type();
      ggml_backend_buffer_ptr buffer(
          ggml_backend_alloc_ctx_tensors_from_buft(state_.contexts[i].get(), type));
      if (buffer == nullptr)
        throw Error(ErrorCode::kModel,
                    "not enough memory for the weights - use a smaller model or quantisation");
      prefer_huge_pages(ggml_backend_buffer_get_base(buffer.get()),
                        ggml_backend_buffer_get_size(buffer.get()));
      ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
      state_.bytes += ggml_backend_buffer_get_size(buffer.get());
      state_.buffers.push_back(std::move(buffer));
    }
  }

  // Bytes that need no change go from the file straight into a plain tensor; all others through a
  // scratch copy.
  void fill(const GgufFile::Tensor& source, ggml_tensor* tensor) {
    const bool host = ggml_backend_buffer_is_host(tensor->buffer);
    if (host && source.type == tensor->type) {
      file_.read(source, 0, {static_cast<std::byte*>(tensor->data), ggml_nbytes(tensor)});
      return;
    }
    scratch_.resize(source.bytes);
    file_.read(source, 0, scratch_);
    if (source.type == tensor->type) {
      ggml_backend_tensor_set(tensor, scratch_.data(), 0, ggml_nbytes(tensor));
      return;
    }
    converted_.resize(ggml_nbytes(tensor));
    convert_rows(source, scratch_, tensor->type, converted_, options_.n_threads);
    ggml_backend_tensor_set(tensor, converted_.data(), 0, converted_.size());
  }

  const GgufFile& file_;
  const LoadOptions& options_;
  Model::State& state_;
  LayoutChooser chooser_;
  std::vector<std::pair<const GgufFile::Tensor*, ggml_tensor*>> made_;
  std::vector<std::byte> scratch_, converted_;
};

}  // namespace

void load_weights(const GgufFile& file, const LoadOptions& options, Model::State& state) {
  Loader(file, options, state).run();
}

}  // namespace tessera
