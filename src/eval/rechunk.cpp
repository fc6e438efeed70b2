#include "eval/rechunk.h"

#include <string>

#include "base/text_util.h"
#include "eval/sample_lines.h"
#include "retrieval/cut_points.h"
#include "text/prompt.h"

namespace tessera {

std::vector<std::string_view> cut_text(std::string_view text, size_t n_bytes) {
  std::vector<std::string_view> out;
  text = trimmed(text);
  while (text.size() > n_bytes) {
    const size_t at = best_cut(text, 0, utf8_floor(text, n_bytes));
    out.push_back(trimmed(text.substr(0, at)));
    text = trimmed(text.substr(at));
  }
  if (!text.empty()) out.push_back(text);
  return out;
}

std::vector<PassageText> rechunked(const std::vector<PassageText>& passages, int32_t n_tokens) {
  std::string joined;
  for (const PassageText& p : passages) joined += chunk_text(p.title, p.text);
  std::vector<PassageText> out;
  for (const std::string_view piece :
       cut_text(joined, static_cast<size_t>(n_tokens) * kBytesPerToken))
    out.push_back({"", std::string(piece)});
  return out;
}

}  // namespace tessera
