#include "model/model.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <mutex>

#include "base/log.h"
#include "model/gguf_file.h"
#include "model/weights.h"

namespace tessera {

int32_t available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

std::shared_ptr<const Model> Model::load(const std::filesystem::path& gguf,
                                         const LoadOptions& options) {
  static std::once_flag is_log_set;
  std::call_once(is_log_set, [] {
    ggml_log_set([](ggml_log_level level, const char* line,
                    void*) { log_library_line("ggml", level == GGML_LOG_LEVEL_ERROR, line); },
                 nullptr);
  });
  const GgufFile file(gguf);
  auto state = std::make_unique<State>();
  state->arch = architecture_of(file);
  state->config = read_config(file, *state->arch);
  LoadOptions used = options;
  if (used.n_threads <= 0) used.n_threads = available_threads();
  load_weights(file, used, *state);
  return std::shared_ptr<const Model>(
      new Model(std::move(state)));  // NOLINT: the constructor is private
}

std::shared_ptr<const Model> Model::with_rope_base(const std::shared_ptr<const Model>& model,
                                                   float factor) {
  const State& from = model->state();
  auto state = std::make_unique<State>();
  state->config = from.config;
  for (LayerConfig& layer : state->config.layers) {
    if (layer.sliding_window == 0) layer.rope.base *= factor;
  }
  state->arch = from.arch;
  state->token_embed = from.token_embed;
  state->output_norm = from.output_norm;
  state->output = from.output;
  state->output_bias = from.output_bias;
  state->rope_factors = from.rope_factors;
  state->layers = from.layers;
  state->type_counts = from.type_counts;
  state->repacked = from.repacked;
  state->bytes = from.bytes;
  state->owner = model;
  return std::shared_ptr<const Model>(
      new Model(std::move(state)));  // NOLINT: the constructor is private
}

const ModelConfig& Model::config() const { return state_->config; }
uint64_t Model::weight_bytes() const { return state_->bytes; }

std::string Model::weight_types() const {
  std::string out;
  for (const auto& [type, n] : state_->type_counts)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", type, n);
  return out;
}

std::string Model::layout_text() const {
  std::string out;
  for (const auto& [type, repacked] : state_->repacked) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", type, repacked ? "repacked" : "plain");
  }
  return out;
}

std::string describe_gguf(const std::filesystem::path& gguf) {
  const GgufFile file(gguf);
  const ModelConfig c = read_config(file, *architecture_of(file));
  const RopeSpec& rope = c.layers.front().rope;
  std::string out;
  const auto line = [&out](std::string_view key, const auto& value) {
    out += fmt::format("{}: {}\n", key, value);
  };
  line("name", c.name);
  line("architecture", c.arch);
  line("layers", c.n_layers);
  line("context", c.n_ctx_train);
  line("vocabulary", c.n_vocab);
  line("embedding", c.embed_dim);
  line("heads", fmt::format("{} query, {} key/value, {} dimensions each", c.n_heads, c.n_kv_heads,
                            c.head_dim));
  line("rope", fmt::format("{}, base {}, scale {}",
                           rope.pairing == RopePairing::kInterleaved ? "interleaved" : "half-split",
                           rope.base, rope.freq_scale));
  line("kv bytes per token", 2 * c.kv_geometry().layer_bytes(1) * static_cast<size_t>(c.n_layers));
  return out;
}

}  // namespace tessera
