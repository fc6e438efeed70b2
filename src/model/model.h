#pragma once
// A model's weights in memory, ready for a Decoder. Immutable after load and shared: several
// decoders, of several models, may live in one process and run on different threads.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "model/config.h"

namespace tessera {

enum class WeightLayout {
  kMeasured,  // per type and shape the faster of the two, by a micro-benchmark whose result is kept
              // in `profile_dir`
  kPlain,
  kRepacked,  // wherever ggml has a repacked kernel; libllama's default
};

struct LoadOptions {
  // Keep Q4_1 and Q5_0 as they are. By default they become Q8_0, for which there are fast kernels
  // and which is as close to the original (GGML.md, requantise at load).
  bool keep_file_types = false;
  WeightLayout layout = WeightLayout::kMeasured;
  int32_t n_threads = 0;  // 0: all this process may use
  std::filesystem::path
      profile_dir;  // where measured layouts are kept; empty: measured anew at every load
};

class Model {
 public:
  // Reads the file completely; it is not needed afterwards. Throws Error(kModel) naming the field
  // for a malformed, truncated or unsupported file, Error(kNotFound) when it is not there.
  static std::shared_ptr<const Model> load(const std::filesystem::path& gguf,
                                           const LoadOptions& options);
  // The weights of `model` with the base of its rotations multiplied by `factor`, which is
  // positive: to see whether a text is read better so. Layers with a window keep theirs, which
  // families set by other means. Shares the weights, which live as long as either.
  static std::shared_ptr<const Model> with_rope_base(const std::shared_ptr<const Model>& model,
                                                     float factor);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const;
  // Types in use after load with the number of matrices of each, e.g. "Q4_K:140,Q6_K:57". Part of
  // the chunk key.
  std::string weight_types() const;
  std::string layout_text() const;  // e.g. "Q4_K plain"; for display only
  uint64_t weight_bytes() const;

  struct State;
  const State& state() const { return *state_; }  // for src/model only

 private:
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// CPUs this process may run on.
int32_t available_threads();

// Facts of a GGUF file for people: one "key: value" per line. Throws as Model::load does.
std::string describe_gguf(const std::filesystem::path& gguf);

}  // namespace tessera
