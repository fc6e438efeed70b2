#pragma once
// Cuts a document into passages: at headings first, then paragraphs, sentences, words, and as a
// last resort between characters. Pure functions; thread-safe.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class DocumentFormat { kPlainText, kMarkdown };

struct Passage {
  std::string title;  // document title and heading path, e.g. "Rhine > Geography"
  std::string text;   // as in the document; white space at both ends removed
  size_t begin = 0;   // byte range of `text` in the document
  size_t end = 0;
};

struct SplitOptions {
  int32_t max_tokens = 512;  // of the whole chunk, title included
  // Tokens of the chunk that a passage becomes. Called often: at most O(n log n) characters in all
  // for n characters.
  std::function<int32_t(std::string_view title, std::string_view text)> count_tokens;
};

// Passages in order, without overlap; every non-space byte of the body is in exactly one (heading
// lines become titles). Passages are filled greedily up to `max_tokens`. Neighbouring sections
// share one when they fit together: its title is then the headings that they have in common, and
// the other heading lines stay in the text. A section that does not fit is cut inside and shares
// with none. A title of more than half of `max_tokens` loses its outer headings. Bytes are kept as
// given (CRLF too), but a byte order mark is skipped; white space means ASCII white space. Throws
// Error(kInvalidRequest) naming the byte offset for invalid UTF-8 or NUL, and for a limit that not
// even one character keeps. An empty document gives none.
std::vector<Passage> split_document(std::string_view text, DocumentFormat format,
                                    std::string_view fallback_title, const SplitOptions& options);

}  // namespace tessera
