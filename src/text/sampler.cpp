#include "text/sampler.h"

#include <fmt/format.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

struct ChainDeleter {
  void operator()(llama_sampler* chain) const { llama_sampler_free(chain); }
};

void check_range(const char* name, float value, float low, float high) {
  if (value >= low && value <= high) return;  // false for NaN
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("{} is {} - it must lie in {}..{}", name, value, low, high));
}

}  // namespace

struct Sampler::State {
  std::unique_ptr<llama_sampler, ChainDeleter> chain;  // null: greedy
  std::vector<llama_token_data> candidates;
};

Sampler::Sampler(const SamplerOptions& o) : state_(std::make_unique<State>()) {
  check_range("temperature", o.temperature, 0.0F, 100.0F);
  check_range("top_p", o.top_p, 0.0F, 1.0F);
  check_range("min_p", o.min_p, 0.0F, 1.0F);
  if (o.top_k < 0)
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("top_k is {} - it must not be negative", o.top_k));
  if (o.temperature == 0.0F) return;
  llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
  state_->chain.reset(chain);
  if (o.top_k > 0) llama_sampler_chain_add(chain, llama_sampler_init_top_k(o.top_k));
  llama_sampler_chain_add(chain, llama_sampler_init_top_p(o.top_p, 1));
  llama_sampler_chain_add(chain, llama_sampler_init_min_p(o.min_p, 1));
  llama_sampler_chain_add(chain, llama_sampler_init_temp(o.temperature));
  llama_sampler_chain_add(chain, llama_sampler_init_dist(o.seed));
}

Sampler::~Sampler() = default;

int32_t Sampler::pick(std::span<const float> logits) {
  const auto top = std::max_element(logits.begin(), logits.end());
  // NaN compares false with everything, so it would pass for any maximum.
  const bool has_nan =
      std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  if (top == logits.end() || !std::isfinite(*top) || has_nan) {
    throw Error(ErrorCode::kModel,
                "the model gave no finite logits - its file is damaged or its type unsound - fetch "
                "it again");
  }
  if (state_->chain == nullptr) return static_cast<int32_t>(top - logits.begin());
  std::vector<llama_token_data>& c = state_->candidates;
  c.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) c[i] = {static_cast<llama_token>(i), logits[i], 0.0F};
  llama_token_data_array array = {c.data(), c.size(), -1, false};
  llama_sampler_apply(state_->chain.get(), &array);
  return array.data[array.selected].id;
}

}  // namespace tessera
