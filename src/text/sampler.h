#pragma once
// Picks the next token from logits, by libllama's samplers. Not thread-safe; one per request.
#include <cstdint>
#include <memory>
#include <span>

namespace tessera {

struct SamplerOptions {
  float temperature = 0.0F;  // 0: greedy, and the options below do nothing
  int32_t top_k = 40;        // 0: all
  float top_p = 0.95F;
  float min_p = 0.05F;
  uint32_t seed = 0;
};

class Sampler {
 public:
  // Throws Error(kInvalidRequest) for a value out of range or not a number.
  explicit Sampler(const SamplerOptions& options);
  ~Sampler();

  // Throws Error(kModel) when the logits are not finite.
  int32_t pick(std::span<const float> logits);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
