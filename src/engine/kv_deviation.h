#pragma once
// How far reused KV is from that of full prefill: what the oracle policy chooses by, and what
// `tessera analyze deviation` shows. K is compared before its rotation: rotary embedding turns both
// sides by the same angles, so that at one place neither distances nor angles between them change.
#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

#include "kv/chunk.h"
#include "kv/segment.h"
#include "model/decoder.h"

namespace tessera {

// Element `index` of f16 numbers.
float half_at(std::span<const std::byte> halves, size_t index);

// K and V of all layers of one row: per layer K then V, each [n_rows, kv_dim], f16.
struct KvOfRow {
  std::span<const std::byte> payload;
  size_t n_rows = 0;
  size_t row = 0;
};

// K or V of one token in one layer, now (full prefill) and then (reused).
struct KvDeviation {
  double distance = 0;   // |now - then|^2
  double now_norm = 0;   // |now|^2
  double then_norm = 0;  // |then|^2
  double product = 0;    // now * then

  double relative() const { return now_norm > 0 ? distance / now_norm : 0; }
  double cosine() const;  // 1 where both are zero, 0 where one is
};

// `matrix`: 2 * layer for K, 2 * layer + 1 for V. Pure; thread-safe.
KvDeviation deviation_between(const KvGeometry& geometry, const KvOfRow& now, const KvOfRow& then,
                              size_t matrix);

// K and V of full prefill, per layer K then V, each [tokens of the prompt, kv_dim]. The working KV
// then holds them. Throws Error(kCancelled) when stopped between micro-batches.
std::vector<std::byte> full_kv(Decoder& decoder, WorkingKv& kv, const Prompt& prompt,
                               const std::stop_token& stop);

}  // namespace tessera
