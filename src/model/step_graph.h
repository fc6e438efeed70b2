#pragma once
// The graph of one step: its inputs, its outputs and their filling and reading. Internal to
// src/model. Not thread-safe: its decoder's.
#include <ggml-cpp.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder.h"
#include "model/weights.h"
#include "model/working_kv_buffers.h"

namespace tessera {

// Everything that the graph's form depends on. Two steps of one shape share a graph.
struct StepShape {
  struct Sequence {
    const WorkingKv* kv = nullptr;
    uint64_t kv_id = 0;  // an address alone may be that of an earlier KV
    int32_t first_row = 0;
    int32_t n_rows = 0;  // the last sequence's include the rows that only pad the step
    int32_t n_keys = 0;  // up to its last one, masked ones at the end included

    // Rows that go into flash attention together, with the keys that they read. Rows that only pad
    // the step are in none.
    struct Part {
      int32_t first_row = 0;  // of the sequence
      int32_t n_rows = 0;
      int32_t n_query_rows = 0;  // group for each row, and what fills the kernel's tiles
      int32_t n_keys = 0;
      bool operator==(const Part&) const = default;
    };
    std::vector<Part> parts;
    bool operator==(const Sequence&) const = default;
  };
  std::vector<Sequence> sequences;
  int32_t group = 1;     // query heads with one K and V that attention takes for rows of one head
  int32_t n_rows = 0;    // of the caller
  int32_t n_padded = 0;  // rows that go through the linear layers
  int32_t layer_begin = 0, layer_end = 0;
  int32_t n_logit_rows = 0;
  std::vector<int32_t> logit_layers;
  bool return_hidden = false;
  int32_t norm_begin = 0, norm_end = 0;
  int32_t kv_layer = -1;
  bool capture_kv = false;
  int32_t n_attention_rows = 0;
  std::vector<int32_t> attention_layers;  // empty without attention rows
  int32_t n_attention_ranges = 0;         // 0: of every key
  bool operator==(const StepShape&) const = default;

  bool probes_attention(int32_t layer) const {
    return std::binary_search(attention_layers.begin(), attention_layers.end(), layer);
  }
};

StepShape shape_of_step(const ModelConfig& config, std::span<const SequenceRows> sequences,
                        const StepOptions& options, int32_t n_threads);

class StepGraph {
 public:
  StepGraph(const Model::State& model, StepShape shape);

  const StepShape& shape() const { return shape_; }
  ggml_cgraph* graph() const { return graph_; }

  // After the graph has been allocated.
  void set_inputs(std::span<const SequenceRows> sequences, const StepOptions& options);
  void read_outputs(StepResult& result) const;

 private:
  void read_attention(StepResult& result) const;
  void read_range_attention(StepResult& result) const;

  friend class LayerBuilder;

  void create_inputs();
  void build();
  void collect_norm(ggml_tensor* x);
  void finish_norms();
  void add_logits(ggml_tensor* x, int32_t layer);
  void finish_logits();
  void fill_masks(const StepShape::Sequence& sequence, size_t index, const SequenceRows& rows);
  ggml_tensor* output(ggml_tensor* tensor);
  // The last layer of a step that wants of it nothing but KV and a few rows' logits, or nothing but
  // KV and attention weights.
  bool is_trimmed(int32_t layer) const;
  bool wants_only_qkv(int32_t layer) const;

  const Model::State& model_;
  StepShape shape_;
  ggml_context_ptr context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_context* ctx() const { return context_.get(); }

  // Inputs; null when the step has no use for one.
  ggml_tensor* tokens_ = nullptr;          // I32 ne[n_padded]
  ggml_tensor* hidden_in_ = nullptr;       // F32 ne[embed_dim, n_padded]
  ggml_tensor* positions_ = nullptr;       // I32 ne[n_padded]
  ggml_tensor* logit_rows_ = nullptr;      // I32 ne[n_logit_rows]
  ggml_tensor* attention_rows_ = nullptr;  // I32 ne[n_attention_rows]
  ggml_tensor* in_range_ = nullptr;        // F32 ne[n_keys, n_attention_ranges], 1 or 0
  struct Masks {
    int32_t window = 0;
    std::vector<std::vector<ggml_tensor*>> parts;  // [sequence][part], F16 ne[n_keys, n_query_rows]
    ggml_tensor* attention = nullptr;              // F16 ne[n_keys, n_attention_rows]
  };
  std::vector<Masks> masks_;         // one for each window width in use
  std::vector<ggml_tensor*> slots_;  // I64 ne[n_rows of the sequence]
  const Masks& masks_for(int32_t layer) const;

  // Outputs.
  ggml_tensor* lens_ = nullptr;    // F32 ne[embed_dim, n_logit_rows of each layer so far], normed
  ggml_tensor* logits_ = nullptr;  // F32 ne[n_vocab, n_logit_rows of each layer]
  ggml_tensor* hidden_out_ = nullptr;
  ggml_tensor* norm_sum_ = nullptr;
  ggml_tensor *k_out_ = nullptr, *v_out_ = nullptr;
  std::vector<ggml_tensor*> captured_;    // K, V of each layer, F16 ne[kv_dim, n_padded]
  ggml_tensor* attention_sum_ = nullptr;  // F32 ne[n_keys, n_attention_rows, n_heads]
  std::vector<ggml_tensor*> range_sums_;  // F32 ne[n_attention_ranges, rows, n_heads]: by layer, of
                                          // rows that follow each other
};

}  // namespace tessera
