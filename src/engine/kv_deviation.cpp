#include "engine/kv_deviation.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

namespace tessera {

float half_at(std::span<const std::byte> halves, size_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, halves.data() + 2 * index, 2);
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

double KvDeviation::cosine() const {
  if (now_norm == 0 && then_norm == 0) return 1;
  if (now_norm == 0 || then_norm == 0) return 0;
  return product / std::sqrt(now_norm * then_norm);
}

KvDeviation deviation_between(const KvGeometry& geometry, const KvOfRow& now, const KvOfRow& then,
                              size_t matrix) {
  const auto width = static_cast<size_t>(geometry.kv_dim);
  const size_t now_at = (matrix * now.n_rows + now.row) * width;
  const size_t then_at = (matrix * then.n_rows + then.row) * width;
  KvDeviation out;
  for (size_t d = 0; d < width; ++d) {
    const double is = half_at(now.payload, now_at + d);
    const double was = half_at(then.payload, then_at + d);
    out.distance += (is - was) * (is - was);
    out.now_norm += is * is;
    out.then_norm += was * was;
    out.product += is * was;
  }
  return out;
}

std::vector<std::byte> full_kv(Decoder& decoder, WorkingKv& kv, const Prompt& prompt,
                               const std::stop_token& stop) {
  std::vector<int32_t> positions(prompt.ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  StepOptions options;
  options.capture_kv = true;
  return std::move(decoder.prefill({&kv, prompt.ids, positions}, options, stop).captured);
}

}  // namespace tessera
