#pragma once
// What an architecture's layer is written in: the operations of one decoder layer over the rows of
// a step. Internal to src/model (shows ggml types). Lives only while a graph is being built; not
// thread-safe.
#include <ggml.h>

#include <cstdint>

#include "model/arch/architecture.h"
#include "model/config.h"

namespace tessera {

class StepGraph;

class LayerBuilder {
 public:
  LayerBuilder(StepGraph& step, int32_t layer) : step_(step), layer_(layer) {}

  const LayerWeights& weights() const;

  // RMS norm times `weight`, ne[embed_dim].
  ggml_tensor* norm(ggml_tensor* x, ggml_tensor* weight);
  ggml_tensor* add(ggml_tensor* a, ggml_tensor* b);

  // Self-attention over the sequences' KV: projections with their biases, QK-norm where the file
  // has it, rotation, the write of K and V, attention, output projection. In the last layer only
  // the rows whose logits are wanted come out.
  ggml_tensor* attention(ggml_tensor* h);
  // The residual's rows that attention() gave back.
  ggml_tensor* residual(ggml_tensor* x);

  // down(activation(gate(h)) * up(h)).
  ggml_tensor* feed_forward(ggml_tensor* h);

  // K and V of the rows, written to the KV, and attention weights where they are wanted; nothing
  // else of the layer.
  void project_only(ggml_tensor* x);

 private:
  struct Qkv {
    ggml_tensor *q, *k, *v;  // before rotation; ne[head_dim, heads, n_rows]
  };
  Qkv project(ggml_tensor* h, bool with_query);
  ggml_tensor* linear(ggml_tensor* weight, ggml_tensor* bias, ggml_tensor* x);
  ggml_tensor* rotate(ggml_tensor* x);
  // Projects, rotates and writes to the KV; gives the rotated queries, null unless wanted.
  ggml_tensor* query_and_write_kv(ggml_tensor* h, bool with_query);
  void write_kv(const Qkv& qkv, ggml_tensor* rotated_k);
  ggml_tensor* attend_sequence(size_t index, ggml_tensor* q);
  void probe_attention(ggml_tensor* q);
  ggml_tensor* attention_weights(ggml_tensor* q, int64_t first, int64_t n);
  bool trims_rows() const;

  StepGraph& step_;
  int32_t layer_;
};

}  // namespace tessera
