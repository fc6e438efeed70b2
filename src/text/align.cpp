#include "text/align.h"

namespace tessera {

std::vector<TokenRange> overlapping_tokens(std::span<const TokenRange> from,
                                           std::span<const TokenRange> to) {
  std::vector<TokenRange> out;
  out.reserve(from.size());
  size_t first = 0;  // of `to`, not wholly before the token at hand
  for (const TokenRange& token : from) {
    while (first < to.size() && to[first].end <= token.begin) ++first;
    size_t end = first;
    // A token of no bytes of `to` belongs to the character of the one before it.
    while (end < to.size() && (to[end].begin < token.end ||
                               (end > first && to[end].size() == 0 && to[end].begin == token.end)))
      ++end;
    // A token of no bytes at the place where one of `to` goes on shares none with it.
    if (token.size() == 0) end = first;
    out.push_back({static_cast<int32_t>(first), static_cast<int32_t>(end)});
  }
  return out;
}

}  // namespace tessera
