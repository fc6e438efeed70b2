#include "model/decoder.h"

#include <fmt/format.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/rope.h"
#include "model/step_graph.h"

namespace tessera {

struct Decoder::Runtime {
  ggml_backend_ptr backend;
  ggml_gallocr_ptr allocator;
  std::unique_ptr<StepGraph> last;  // kept while the next step has the same shape
};

Decoder::Decoder(std::shared_ptr<const Model> model, int32_t n_threads, int32_t micro_batch)
    : model_(std::move(model)),
      n_threads_(n_threads > 0 ? n_threads : available_threads()),
      micro_batch_(micro_batch),
      runtime_(std::make_unique<Runtime>()) {
  CHECK(micro_batch > 0);
  runtime_->backend.reset(ggml_backend_cpu_init());
  ggml_backend_cpu_set_n_threads(runtime_->backend.get(), n_threads_);
  runtime_->allocator.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
}

Decoder::~Decoder() = default;

namespace {

Error out_of_memory() {
  return {ErrorCode::kIo,
          "not enough memory to compute - it is used up - use a smaller model or context"};
}

// Plans anew every time: the allocator by itself would keep a plan whose sizes happen to fit,
// whatever is wired to what, and the plan of a buffer that it could not get.
void allocate(ggml_gallocr_t allocator, ggml_cgraph* graph) {
  if (!ggml_gallocr_reserve(allocator, graph) || !ggml_gallocr_alloc_graph(allocator, graph))
    throw out_of_memory();
}

void compute(ggml_backend_t backend, ggml_cgraph* graph) {
  if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) throw out_of_memory();
}

// Every claim that a step rests on. All of them are the engine's own doing, so they are checks, not
// errors.
void check_rows(const ModelConfig& c, const SequenceRows& s, bool reads_tokens) {
  CHECK(s.kv != nullptr && !s.positions.empty());
  CHECK(s.positions.front() >= 0 && s.positions.back() < s.kv->n_slots());
  for (size_t i = 1; i < s.positions.size(); ++i) CHECK(s.positions[i - 1] < s.positions[i]);
  CHECK(!reads_tokens || s.tokens.size() == s.positions.size());
  for (const int32_t token : s.tokens) CHECK(token >= 0 && token < c.n_vocab);
  CHECK(s.last_keys.empty() || s.last_keys.size() == s.positions.size());
  for (size_t i = 0; i < s.last_keys.size(); ++i) CHECK(s.last_keys[i] >= s.positions[i]);
  CHECK(std::is_sorted(s.last_keys.begin(), s.last_keys.end()));
  CHECK(s.last_key() < s.kv->n_slots());
  size_t next = 0;  // every key that attention will read has KV, or gets it in this step
  for (int32_t position = 0; position <= s.last_key(); ++position) {
    const bool is_row = next < s.positions.size() && s.positions[next] == position;
    next += is_row ? 1 : 0;
    CHECK(is_row || s.kv->has(position));
  }
}

bool is_ascending_below(const std::vector<int32_t>& values, int32_t limit) {
  return (values.empty() || (values.front() >= 0 && values.back() < limit)) &&
         std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

bool is_within(const LayerRange& part, const LayerRange& whole) {
  return part.empty() || (part.begin >= whole.begin && part.end <= whole.end);
}

void check_step(const ModelConfig& c, std::span<const SequenceRows> sequences,
                const StepOptions& options) {
  CHECK(!sequences.empty());
  size_t n_rows = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    check_rows(c, sequences[i], options.layers.begin == 0);
    n_rows += sequences[i].positions.size();
    for (size_t other = 0; other < i; ++other) CHECK(sequences[other].kv != sequences[i].kv);
  }
  const LayerRange run = {options.layers.begin,
                          options.layers.end == 0 ? c.n_layers : options.layers.end};
  CHECK(run.begin >= 0 && run.begin < run.end && run.end <= c.n_layers);
  CHECK(run.begin == 0 || options.hidden.size() == n_rows * static_cast<size_t>(c.embed_dim));
  CHECK(is_within(options.norm_layers, run));
  for (const int32_t layer : options.attention_layers) CHECK(run.holds(layer));
  CHECK(is_ascending_below(options.attention_layers, c.n_layers));
  CHECK(options.kv_layer == -1 || (options.kv_layer >= run.begin && options.kv_layer <= run.end &&
                                   options.kv_layer < c.n_layers));
  CHECK(!options.capture_kv || (run.begin == 0 && run.end == c.n_layers));
  for (const int32_t layer : options.logit_layers) CHECK(run.holds(layer));
  CHECK(options.logit_rows.empty() || !options.logit_layers.empty() || run.end == c.n_layers);
  CHECK(is_ascending_below(options.logit_layers, c.n_layers));
  CHECK(is_ascending_below(options.logit_rows, static_cast<int32_t>(n_rows)));
  CHECK(is_ascending_below(options.attention_rows, static_cast<int32_t>(n_rows)));
  for (const TokenRange& range : options.attention_ranges)
    CHECK(range.begin >= 0 && range.begin <= range.end);
  CHECK(options.attention_rows.empty() ||
        (sequences.size() == 1 && !options.attention_layers.empty()));
}

}  // namespace

StepResult Decoder::step(std::span<const SequenceRows> sequences, const StepOptions& options) {
  check_step(config(), sequences, options);
  return run_step(sequences, options);
}

StepResult Decoder::run_step(std::span<const SequenceRows> sequences, const StepOptions& options) {
  StepShape shape = shape_of_step(config(), sequences, options, n_threads_);
  CHECK(shape.n_rows <= micro_batch_);
  const Model::State& state = model_->state();
  if (runtime_->last == nullptr || runtime_->last->shape() != shape) {
    runtime_->last.reset();
    auto graph = std::make_unique<StepGraph>(state, std::move(shape));
    allocate(runtime_->allocator.get(), graph->graph());
    runtime_->last = std::move(graph);
  }
  StepGraph& graph = *runtime_->last;
  graph.set_inputs(sequences, options);
  // The tiled kernel multiplies what it masks by 0: an infinity that an earlier prompt left there
  // would spread.
  if (options.kernels == KernelClass::kPrefill) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences[i].kv->zero_unclaimed(
          {sequences[i].last_key() + 1, graph.shape().sequences[i].n_keys},
          {graph.shape().layer_begin, graph.shape().layer_end});
    }
  }
  compute(runtime_->backend.get(), graph.graph());
  StepResult result;
  for (const SequenceRows& s : sequences) {
    result.n_keys = std::max(result.n_keys, s.last_key() + 1);
    // KV of a position is whole only when all layers have run; a partial pass is completed by the
    // step that resumes it.
    if (graph.shape().layer_end < config().n_layers) continue;
    for (const int32_t position : s.positions) s.kv->mark({position, position + 1});
  }
  graph.read_outputs(result);
  return result;
}

namespace {

void append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Rows [begin, end) of `options`, renumbered.
StepOptions part_of(const StepOptions& options, int32_t begin, int32_t end, int32_t embed_dim) {
  StepOptions part = options;
  const auto pick = [&](std::vector<int32_t>& rows) {
    std::erase_if(rows, [&](int32_t row) { return row < begin || row >= end; });
    for (int32_t& row : rows) row -= begin;
  };
  pick(part.logit_rows);
  pick(part.attention_rows);
  if (!options.hidden.empty()) {
    part.hidden =
        options.hidden.subspan(static_cast<size_t>(begin) * static_cast<size_t>(embed_dim),
                               static_cast<size_t>(end - begin) * static_cast<size_t>(embed_dim));
  }
  return part;
}

// Joins the results of micro-batches into what one step over all rows would have returned.
class ResultJoiner {
 public:
  ResultJoiner(const ModelConfig& config, const SequenceRows& rows, const StepOptions& options)
      : config_(config),
        n_rows_(rows.positions.size()),
        n_logit_layers_(std::max<size_t>(1, options.logit_layers.size())),
        n_attention_layers_(options.attention_layers.size()) {
    out_.n_keys = rows.last_key() + 1;
  }

  void add(const StepResult& part, size_t n_part_rows) {
    append(out_.hidden, part.hidden);
    append(out_.norms, part.norms);
    append(out_.k, part.k);
    append(out_.v, part.v);
    add_by_layer(part.logits, n_logit_layers_, logits_);
    add_attention(part);
    add_by_layer(part.range_attention, n_attention_layers_, range_attention_);
    add_captured(part.captured, n_part_rows);
    rows_done_ += n_part_rows;
  }

  StepResult take() {
    for (const std::vector<float>& layer : logits_) append(out_.logits, layer);
    for (const std::vector<float>& layer : range_attention_) append(out_.range_attention, layer);
    return std::move(out_);
  }

 private:
  static void add_by_layer(const std::vector<float>& part, size_t n_layers,
                           std::vector<std::vector<float>>& layers) {
    if (part.empty()) return;
    layers.resize(n_layers);
    const size_t each = part.size() / n_layers;
    for (size_t i = 0; i < n_layers; ++i) {
      layers[i].insert(layers[i].end(), part.begin() + static_cast<ptrdiff_t>(i * each),
                       part.begin() + static_cast<ptrdiff_t>((i + 1) * each));
    }
  }

  void add_attention(const StepResult& part) {
    if (part.attention.empty()) return;
    const auto width = static_cast<size_t>(part.n_keys);
    for (size_t row = 0; row < part.attention.size() / width; ++row) {
      const auto begin = part.attention.begin() + static_cast<ptrdiff_t>(row * width);
      out_.attention.insert(out_.attention.end(), begin, begin + static_cast<ptrdiff_t>(width));
      out_.attention.resize(out_.attention.size() + static_cast<size_t>(out_.n_keys) - width, 0.0F);
    }
  }

  void add_captured(const std::vector<std::byte>& captured, size_t n_part_rows) {
    if (captured.empty()) return;
    const size_t row = config_.kv_geometry().layer_bytes(1);
    const size_t n_matrices = 2 * static_cast<size_t>(config_.n_layers);
    out_.captured.resize(n_matrices * n_rows_ * row);
    for (size_t m = 0; m < n_matrices; ++m) {
      std::memcpy(out_.captured.data() + (m * n_rows_ + rows_done_) * row,
                  captured.data() + m * n_part_rows * row, n_part_rows * row);
    }
  }

  const ModelConfig& config_;
  size_t n_rows_;
  size_t n_logit_layers_, n_attention_layers_;
  size_t rows_done_ = 0;
  std::vector<std::vector<float>> logits_, range_attention_;  // [layers]
  StepResult out_;
};

}  // namespace

StepResult Decoder::prefill(const SequenceRows& rows, const StepOptions& options,
                            const std::stop_token& stop) {
  const auto n_rows = static_cast<int32_t>(rows.positions.size());
  // All rows at once: where a pass stops below the last layer, the rows of a micro-batch count as
  // having KV for the next one, though not for anyone else.
  check_step(config(), {&rows, 1}, options);
  if (n_rows <= micro_batch_) {
    if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "cancelled before prefill");
    return run_step({&rows, 1}, options);
  }
  ResultJoiner joiner(config(), rows, options);
  for (int32_t begin = 0; begin < n_rows; begin += micro_batch_) {
    if (stop.stop_requested())
      throw Error(ErrorCode::kCancelled,
                  fmt::format("cancelled after {} of {} rows", begin, n_rows));
    const int32_t end = std::min(n_rows, begin + micro_batch_);
    const auto first = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    const SequenceRows part = {
        rows.kv, rows.tokens.empty() ? rows.tokens : rows.tokens.subspan(first, count),
        rows.positions.subspan(first, count),
        rows.last_keys.empty() ? rows.last_keys : rows.last_keys.subspan(first, count)};
    joiner.add(run_step({&part, 1}, part_of(options, begin, end, config().embed_dim)), count);
  }
  return joiner.take();
}

namespace {

// The rotation of a load that `fault` spoils; positions are spoilt where they are written.
RopeSpec with_fault(RopeSpec spec, LoadFault fault) {
  if (fault == LoadFault::kWrongBase) spec.base *= 10;
  if (fault == LoadFault::kWrongPairing) {
    spec.pairing = spec.pairing == RopePairing::kHalfSplit ? RopePairing::kInterleaved
                                                           : RopePairing::kHalfSplit;
  }
  return spec;
}

}  // namespace

void Decoder::load(WorkingKv& kv, std::span<const Placement> placements) {
  if (placements.empty()) return;
  const ModelConfig& c = config();
  WorkingKv::Buffers& buffers = *kv.buffers_;
  std::vector<TokenRange> runs;  // neighbours are rotated together
  for (const Placement& p : placements) {
    CHECK(p.chunk != nullptr && p.chunk->geometry() == c.kv_geometry());
    const TokenRange range = {p.position, p.position + p.chunk->n_tokens()};
    CHECK(range.begin >= 0 && range.end <= kv.n_slots());
    for (int32_t layer = 0; layer < c.n_layers; ++layer) {
      const auto l = static_cast<size_t>(layer);
      std::memcpy(kv.row(buffers.k[l], range.begin), p.chunk->k(layer).data(),
                  p.chunk->k(layer).size());
      std::memcpy(kv.row(buffers.v[l], range.begin), p.chunk->v(layer).data(),
                  p.chunk->v(layer).size());
    }
    CHECK(std::none_of(runs.begin(), runs.end(), [&](const TokenRange& r) {
      return range.begin < r.end && r.begin < range.end;
    }));  // K would be rotated twice
    if (!runs.empty() && runs.back().end == range.begin) {
      runs.back().end = range.end;
    } else {
      runs.push_back(range);
    }
  }

  const size_t n_nodes = 64 + runs.size() * (2 + 2 * static_cast<size_t>(c.n_layers));
  const ggml_context_ptr context(ggml_init(
      {.mem_size = n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false),
       .mem_buffer = nullptr,
       .no_alloc = true}));
  ggml_cgraph* graph = ggml_new_graph_custom(context.get(), n_nodes, false);
  std::vector<ggml_tensor*> positions;
  for (const TokenRange& run : runs) {
    positions.push_back(ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, run.size()));
    ggml_set_input(positions.back());
    for (size_t l = 0; l < buffers.k.size(); ++l) {
      ggml_tensor* k = buffers.k[l];
      ggml_tensor* rows = ggml_view_3d(context.get(), k, c.head_dim, c.n_kv_heads, run.size(),
                                       static_cast<size_t>(c.head_dim) * k->nb[0], k->nb[1],
                                       static_cast<size_t>(run.begin) * k->nb[1]);
      const RopeInput loaded = {rows, positions.back(), model_->state().rope_factors};
      const RopeSpec spec = with_fault(c.layers[l].rope, load_fault_);
      ggml_build_forward_expand(graph, rope(context.get(), loaded, spec, true));
    }
  }
  // Its tensors lie in the buffer that is about to be used for another graph.
  runtime_->last.reset();
  allocate(runtime_->allocator.get(), graph);
  const int32_t offset = load_fault_ == LoadFault::kOffByOne ? 1 : 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto* at = static_cast<int32_t*>(positions[i]->data);
    for (int32_t n = 0; n < runs[i].size(); ++n) at[n] = runs[i].begin + n + offset;
  }
  compute(runtime_->backend.get(), graph);
  for (const TokenRange& run : runs) kv.mark(run);
}

double Decoder::share_outside_kernels(const SequenceRows& rows) {
  struct Clocked {
    double kernels_ms = 0;
    double all_ms = 0;
    Stopwatch watch;
  } clocked;
  const auto before_or_after = [](ggml_tensor* node, bool is_before, void* data) {
    auto& c = *static_cast<Clocked*>(data);
    if (is_before) {
      c.watch.restart();
      return true;  // compute this node alone
    }
    const double ms = c.watch.ms();
    c.all_ms += ms;
    if (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_FLASH_ATTN_EXT) c.kernels_ms += ms;
    return true;
  };
  ggml_backend_t backend = runtime_->backend.get();
  StepOptions options;
  for (size_t begin = 0; begin < rows.positions.size();
       begin += static_cast<size_t>(micro_batch_)) {
    const size_t n = std::min(rows.positions.size() - begin, static_cast<size_t>(micro_batch_));
    if (begin + n == rows.positions.size()) options.logit_rows = {static_cast<int32_t>(n) - 1};
    const SequenceRows part = {rows.kv, rows.tokens.subspan(begin, n),
                               rows.positions.subspan(begin, n)};
    StepGraph graph(model_->state(), shape_of_step(config(), {&part, 1}, options, n_threads_));
    const ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(&backend, nullptr, 1, 16384, false, false));
    ggml_backend_sched_set_eval_callback(sched.get(), before_or_after, &clocked);
    if (!ggml_backend_sched_alloc_graph(sched.get(), graph.graph())) throw out_of_memory();
    graph.set_inputs({&part, 1}, options);
    if (ggml_backend_sched_graph_compute(sched.get(), graph.graph()) != GGML_STATUS_SUCCESS) {
      throw out_of_memory();
    }
  }
  return clocked.all_ms > 0 ? 1.0 - clocked.kernels_ms / clocked.all_ms : 0.0;
}

}  // namespace tessera
