#pragma once
// Which layers of a model a score is read from.
#include <cstdint>
#include <string_view>

#include "kv/segment.h"

namespace tessera {

// Either a share of all layers, counted from the last one down, or two numbers.
struct LayerPart {
  double share = 1;               // 0: the last layer alone
  int32_t first = -1, last = -1;  // counted from 0, both included; -1: the share holds
};

// Reads "all", "two_thirds", "half", "third", "last", or "A-B", layers counted from 0. Throws
// Error(kInvalidRequest) for anything else.
LayerPart layer_part(std::string_view text);

// The layers [begin, end) of a model of `n_layers`. Throws Error(kInvalidRequest) for numbers that
// it does not have.
LayerRange layers_of(const LayerPart& part, int32_t n_layers);

}  // namespace tessera
