#pragma once
// Passages cut anew, so that what is measured does not depend on how long a set's passages happen
// to be. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/request.h"

namespace tessera {

// `text` in pieces of at most `n_bytes` (at least 4), each as long as a good place to end allows
// (best_cut()), without white space at both ends; none of a blank text. They point into `text`.
std::vector<std::string_view> cut_text(std::string_view text, size_t n_bytes);

// The texts of the passages' chunks, titles included, joined in their order and cut into passages
// without titles of at most `n_tokens` (at least 1) tokens' worth, four bytes a token.
std::vector<PassageText> rechunked(const std::vector<PassageText>& passages, int32_t n_tokens);

}  // namespace tessera
