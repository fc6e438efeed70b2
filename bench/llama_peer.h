#pragma once
// libllama as a peer: the same GGUF and ids through its own graph. The oracle of the decoder's
// tests (O9) and the other side of `tessera bench`. Not thread-safe.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace tessera {

class LlamaPeer {
 public:
  // `repack`: libllama's use_extra_bufts, on by default there. Flash attention on, f16 KV,
  // micro-batches of `micro_batch` rows. `n_ctx` 0: the model's, at most 8192.
  LlamaPeer(const std::filesystem::path& gguf, bool repack, int32_t n_threads,
            int32_t micro_batch = 512, int32_t n_ctx = 0);
  ~LlamaPeer();

  int32_t n_vocab() const;
  // Logits of every row of a prefill from an empty cache, [n, n_vocab].
  std::vector<float> all_logits(std::span<const int32_t> ids);
  // Logits of the last row of a prefill from an empty cache.
  std::vector<float> last_logits(std::span<const int32_t> ids);
  // One more token behind what is in the cache; its logits.
  std::vector<float> decode(int32_t token);
  // Forgets all from `position` on.
  void truncate(int32_t position);

 private:
  std::vector<float> run(std::span<const int32_t> ids, bool all);
  void clear();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
