#pragma once
// KV of what stands before a chunk, kept in front of a working KV from one chunk to the next. Not
// thread-safe: it uses the decoder it is given.
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "model/decoder.h"

namespace tessera {

class FrontKv {
 public:
  // Both must outlive the object.
  FrontKv(Decoder& decoder, WorkingKv& kv) : decoder_(decoder), kv_(kv) {}

  // Afterwards the working KV holds `before` at positions 0, 1, ... and nothing else. Computes it
  // only when it does not stand there already; gives the number of rows computed. `before` may be
  // empty. Throws Error(kCancelled).
  int64_t put(std::span<const int32_t> before, const std::stop_token& stop);

 private:
  Decoder& decoder_;
  WorkingKv& kv_;
  std::vector<int32_t> resident_;  // ids whose KV stands in front
  uint64_t epoch_ = 0;             // of kv_ when they were put there; another one: they are gone
};

}  // namespace tessera
