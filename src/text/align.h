#pragma once
// Tokens of one text under two tokenizers, matched by the bytes they stand for (DESIGN.md section
// 6.1, step 4). Pure.
#include <span>
#include <vector>

#include "kv/segment.h"

namespace tessera {

// For each token of `from` the range of tokens of `to` that share a byte with it. Both are byte
// ranges of the same text, ascending and without overlap. A token of no bytes gets an empty range;
// one of `to` goes with the token before it, whose character it helps to write.
std::vector<TokenRange> overlapping_tokens(std::span<const TokenRange> from,
                                           std::span<const TokenRange> to);

}  // namespace tessera
