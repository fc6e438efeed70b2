#pragma once
// Where a text that does not fit is cut. Pure; thread-safe.
#include <cstddef>
#include <string_view>

namespace tessera {

// The best place in (begin, end] to cut text[begin, end): the last one between paragraphs, else
// behind a sentence, else at a line break, else between words. Places in the first third count only
// when there are none behind it: a heading-like line before a long table would else become a
// passage of its own. `end` when there is no place at all. `begin` and `end` lie between
// characters; text behind `end` is looked at to see whether something ends there. A cut other than
// `end` lies before white space, or behind a CJK sentence.
size_t best_cut(std::string_view text, size_t begin, size_t end);

}  // namespace tessera
