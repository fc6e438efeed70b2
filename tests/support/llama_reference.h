#pragma once
// libllama as the oracle of our decoder (O9): the same GGUF, the same ids, its own graph.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace tessera {

class LlamaReference {
 public:
  // `repack`: libllama's use_extra_bufts. `flash_attention` on, f16 KV, one micro-batch of
  // `micro_batch` rows.
  LlamaReference(const std::filesystem::path& gguf, bool repack, int32_t n_threads,
                 int32_t micro_batch = 512);
  ~LlamaReference();

  int32_t n_vocab() const;
  // Logits of every row of a prefill from an empty cache, [n, n_vocab].
  std::vector<float> all_logits(std::span<const int32_t> ids);
  // Logits of the last row of a prefill from an empty cache.
  std::vector<float> last_logits(std::span<const int32_t> ids);
  // One more token behind what is in the cache; its logits.
  std::vector<float> decode(int32_t token);

 private:
  std::vector<float> run(std::span<const int32_t> ids, bool all);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
