#pragma once
// Runs a model over rows of one or more sequences, with gaps between their positions (DESIGN.md
// section 4).
//
// Each row writes its K and V into its slot before attention reads them; attention sees key_pos <=
// query_pos, inside the window where a layer has one. Not thread-safe: one decoder per thread.
// Results are deterministic for equal input, weight layout and thread count. K, V and hidden states
// of one sequence's rows are the same computed together or apart in KernelClass::kPrefill, and
// logits where as many rows' are wanted; otherwise, and between steps of one and of several
// sequences, they agree within rounding.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "kv/chunk.h"
#include "kv/segment.h"
#include "model/model.h"
#include "model/working_kv.h"

namespace tessera {

// Rows of one sequence in one step. `positions` ascend strictly. A position may already have KV: it
// is replaced. Every position below the highest one must have KV or be among the rows.
struct SequenceRows {
  WorkingKv* kv = nullptr;
  std::span<const int32_t> tokens;  // not read when the step resumes from hidden states
  std::span<const int32_t> positions;
  // The last key that each row sees, ascending, none before the row's own; empty: its own. Keys up
  // to it must have KV or be among the rows, and where rows go in micro-batches those of a later
  // one are seen as they were before. For comparison only: causal attention ends at a row's own
  // position.
  std::span<const int32_t> last_keys = {};
  int32_t last_key_of(size_t row) const {
    return last_keys.empty() ? positions[row] : last_keys[row];
  }
  int32_t last_key() const { return last_key_of(positions.size() - 1); }
};

// ggml picks its kernels by the number of rows, and they round differently (GGML.md T1 to T3).
// kPrefill pads a step so that any number of rows takes the kernels of a long prompt; kDecode does
// not, which is faster for single rows.
enum class KernelClass { kPrefill, kDecode };

// What a step returns besides writing KV. Row numbers count over all sequences in the order given.
struct StepOptions {
  KernelClass kernels = KernelClass::kPrefill;
  // End 0: to the last. A begin above 0 resumes from `hidden`, for rows whose lower layers an
  // earlier step ran; an end stops before that layer. A partial pass changes KV only in the layers
  // it runs and claims none for its rows.
  LayerRange layers;
  std::span<const float> hidden;  // [n_rows, embed_dim], the residual that enters layers.begin
  std::vector<int32_t> logit_rows;
  std::vector<int32_t>
      logit_layers;  // logit lens: after these layers (0-based), ascending; empty: after the last
  bool return_hidden = false;
  LayerRange norm_layers;  // L2 norm of the residual after each of these layers, averaged
  int32_t kv_layer =
      -1;  // K before RoPE and V of this layer; may be layers.end, which then only projects
  bool capture_kv = false;                   // the same of all layers, f16: what a chunk is made of
  std::vector<int32_t> attention_rows;       // rows whose attention is wanted; one sequence only
  std::vector<int32_t> attention_layers;     // averaged over heads and these layers, ascending
  std::vector<TokenRange> attention_ranges;  // not of each key but of each range of keys, by layer
};

struct StepResult {
  std::vector<float> logits;  // [logit_layers or 1, logit_rows, n_vocab]
  std::vector<float>
      hidden;  // [n_rows, embed_dim], the residual after layers.end - 1, before the output norm
  std::vector<float> norms;            // [n_rows]
  std::vector<float> k, v;             // [n_rows, kv_dim]
  std::vector<float> attention;        // [attention_rows, n_keys]; each row sums to 1
  std::vector<float> range_attention;  // [attention_layers, attention_rows, attention_ranges]
  int32_t n_keys = 0;                  // the last key of the step + 1
  std::vector<std::byte>
      captured;  // per layer K then V, [n_rows, kv_dim] f16: the payload of a KvChunk
};

// What may be wrong with how K enters the working KV: planted by who wants to know whether a check
// would find it.
enum class LoadFault {
  kNone,
  kWrongPairing,  // dimensions are joined as the other kind of model joins them
  kWrongBase,     // of the rotation, ten times too large
  kOffByOne,      // one position too far
};

class Decoder {
 public:
  static constexpr int32_t kDefaultMicroBatch = 512;

  // `n_threads` 0: one for each CPU there is.
  explicit Decoder(std::shared_ptr<const Model> model, int32_t n_threads = 0,
                   int32_t micro_batch = kDefaultMicroBatch);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const Model& model() const { return *model_; }
  std::shared_ptr<const Model> shared_model() const { return model_; }
  const ModelConfig& config() const { return model_->config(); }
  int32_t n_threads() const { return n_threads_; }
  int32_t micro_batch() const { return micro_batch_; }

  // All of these throw Error(kIo) when there is no memory to compute in. Rows, positions and
  // options that do not make sense are the caller's fault and end the process (CHECK).

  // One pass over the layers. At most micro_batch rows.
  StepResult step(std::span<const SequenceRows> sequences, const StepOptions& options);

  // Any number of rows of one sequence in micro-batches, results joined. Between two micro-batches
  // `stop` is looked at: Error(kCancelled), and rows not computed keep the KV they had, if any.
  StepResult prefill(const SequenceRows& rows, const StepOptions& options,
                     const std::stop_token& stop = {});

  // Copies a chunk's V, and its K rotated to where it now stands, into positions position ..
  // position + n_tokens - 1. Placements of one call must not overlap.
  struct Placement {
    const KvChunk* chunk = nullptr;
    int32_t position = 0;
  };
  void load(WorkingKv& kv, std::span<const Placement> placements);
  // Makes every load() from now on rotate wrongly. Computed K stays right.
  void plant_fault(LoadFault fault) { load_fault_ = fault; }

  // Share of a prefill's time that is spent outside matrix products and attention, 0..1. Computes
  // the rows node by node with a clock around each, so the pass itself is slower than prefill().
  double share_outside_kernels(const SequenceRows& rows);

 private:
  StepResult run_step(std::span<const SequenceRows> sequences, const StepOptions& options);

  struct Runtime;
  std::shared_ptr<const Model> model_;
  int32_t n_threads_;
  int32_t micro_batch_;
  LoadFault load_fault_ = LoadFault::kNone;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace tessera
