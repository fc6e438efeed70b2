#pragma once
// What full prefill said to a question, kept between runs: it is the most expensive part of an
// evaluation and does not depend on the policies that are held against it.
//
// One file per key in one folder. Any doubt about a file, and any fault of the disk, is a miss.
// Thread-safe, also across processes: files appear whole or not at all. Processes that write at the
// same time may together go over the limit by what each of them writes.
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

// What the logits' number of rows follows from, beside the tokens.
struct ReferenceShape {
  int32_t n_vocab = 0;
  int32_t n_room = 0;  // tokens that the context holds behind the prompt
};

// A kept file.
struct ReferenceFile {
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::filesystem::file_time_type written;
};
// All in `dir`, oldest first; none where it cannot be read.
std::vector<ReferenceFile> reference_files(const std::filesystem::path& dir);

inline constexpr uint64_t kReferenceLimitBytes = uint64_t{4} << 30;

class ReferenceCache {
 public:
  // An empty `dir` keeps nothing.
  ReferenceCache(std::filesystem::path dir, uint64_t limit_bytes);

  // `key`: hex digits, over everything that the result depends on.
  std::optional<FullPrefill> find(const std::string& key, const ReferenceShape& shape) const;

  // Whether it was kept. The oldest files go where it would not fit into the limit.
  bool put(const std::string& key, const FullPrefill& reference) const;

 private:
  bool make_room(const std::string& key, uint64_t n_bytes) const;

  std::filesystem::path dir_;
  uint64_t limit_bytes_;
};

// The bytes of a file, in the byte order of this machine, and back: nothing for bytes that are not
// whole, or were written for another key or shape.
std::vector<std::byte> encode_reference(const std::string& key, const FullPrefill& reference);
std::optional<FullPrefill> decode_reference(std::span<const std::byte> bytes,
                                            const std::string& key, const ReferenceShape& shape);

}  // namespace tessera
