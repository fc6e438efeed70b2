#pragma once
// What full prefill said to a question, kept between runs: it is the most expensive part of an
// evaluation and does not depend on the policies that are held against it.
//
// One file per key below one folder. Any doubt about a file, and any fault of the disk, is a miss.
// Thread-safe, also across processes: files appear whole or not at all.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

// Greedy.
struct FullPrefill {
  std::string answer;
  std::vector<int32_t> tokens;  // of the answer, at most kCompareTokens
  std::vector<float> logits;    // that predict them, [rows, n_vocab] as Engine::forced_logits
  double gold_nll = 0;          // of the first gold answer, nats a token
  double ttft_ms = 0;
  int32_t n_prompt_tokens = 0;
};

class ReferenceCache {
 public:
  // An empty `dir` keeps nothing.
  explicit ReferenceCache(std::filesystem::path dir);

  // `key`: hex digits, over everything that the result depends on.
  std::optional<FullPrefill> find(const std::string& key, int32_t n_vocab) const;

  // Whether it was kept.
  bool put(const std::string& key, const FullPrefill& reference) const;

 private:
  std::filesystem::path dir_;
};

// The bytes of a file, in the byte order of this machine, and back: nothing for bytes that are not
// whole, or were written for another key or vocabulary.
std::vector<std::byte> encode_reference(const std::string& key, const FullPrefill& reference);
std::optional<FullPrefill> decode_reference(std::span<const std::byte> bytes,
                                            const std::string& key, int32_t n_vocab);

}  // namespace tessera
