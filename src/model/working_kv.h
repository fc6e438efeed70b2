#pragma once
// The KV of one sequence while it is being computed: K after RoPE and V, f16, slot = position.
//
// It is the one owner of the claim "the token at this position has KV": a step checks it before
// attention reads. Memory is reserved for `n_slots` but only touched pages count. Not thread-safe;
// used by one decoder at a time.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kv/segment.h"
#include "model/config.h"

struct ggml_tensor;  // NOLINT(readability-identifier-naming): ggml's name

namespace tessera {

class WorkingKv {
 public:
  // Room for positions 0..n_slots-1. Throws Error(kIo) when the memory cannot be reserved.
  WorkingKv(const ModelConfig& config, int32_t n_slots);
  ~WorkingKv();
  WorkingKv(const WorkingKv&) = delete;
  WorkingKv& operator=(const WorkingKv&) = delete;

  int32_t n_slots() const { return n_slots_; }
  // Slots that attention may read: whole groups, so a few more than can be written.
  int32_t n_readable() const { return n_readable_; }
  // Unlike the address, never that of an earlier object.
  uint64_t id() const { return id_; }
  // Raised by clear(): who keeps something in front compares it to see whether it is still there.
  uint64_t epoch() const { return epoch_; }

  // Forgets everything from `position` on.
  void truncate(int32_t position);
  void clear();
  // `position` within 0..n_slots-1.
  bool has(int32_t position) const { return valid_[static_cast<size_t>(position)]; }
  // Positions 0..n-1 all have KV.
  bool complete_up_to(int32_t n) const;
  // A copy of K, as attention reads it, of one layer at positions that have KV: [range.size(),
  // kv_dim]. For checks.
  std::vector<float> rotated_k(int32_t layer, TokenRange range) const;

 private:
  friend class Decoder;
  friend class LayerBuilder;
  friend class StepGraph;
  static constexpr int32_t kScratchSlots = 64;  // rows that only pad a step write here

  // Zeroes the slots [begin, end) that have no KV, in `layers`.
  void zero_unclaimed(TokenRange slots, LayerRange layers);

  void mark(TokenRange range);
  std::byte* row(ggml_tensor* tensor, int32_t slot) const;

  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
  int32_t n_slots_ = 0;
  int32_t n_readable_ = 0;
  uint64_t id_ = 0;
  uint64_t epoch_ = 0;
  std::vector<bool> valid_;
};

}  // namespace tessera
