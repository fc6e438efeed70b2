#pragma once
// The headings of a document and what stands under each. Pure; thread-safe.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/splitter.h"

namespace tessera {

// White space of the splitter: ASCII only. Other blanks of Unicode are text.
inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Text from one heading to the next. The sections of a document follow one another without gaps:
// sections[i].end == sections[i + 1].begin.
struct Section {
  std::vector<std::string>
      path;          // document title, then the headings that are open here, its own last
  size_t begin = 0;  // of the heading line, or of the body where there is none
  size_t body_begin = 0;
  size_t end = 0;
  bool is_blank = true;  // nothing but white space in the body
};

// Byte ranges are those of `text`, from `begin` (behind a byte order mark). A heading that has
// nothing under it, no deeper heading either, is body text of what stands above it, so that no word
// is lost.
//
// Markdown: ATX and one-line setext headings; none inside fenced code or front matter. The title of
// the document is its level 1 heading when it has just one and nothing stands before it, else
// `fallback_title`. Plain text: one section; the title is the first line when it looks like one:
// short, no punctuation at its end.
std::vector<Section> find_sections(std::string_view text, size_t begin, DocumentFormat format,
                                   std::string_view fallback_title);

}  // namespace tessera
