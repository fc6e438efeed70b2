#pragma once
// A needle in a haystack: a sentence with a number, put somewhere into a long text that has nothing
// to do with it; the question asks for the number. Pure; the same text gives the same questions.
// Thread-safe.
#include <string_view>
#include <vector>

#include "eval/sample.h"

namespace tessera {

// Questions over parts of `text`, whose beginnings and numbers are drawn from a fixed seed: five
// for each length (1000, 2000 and 4000 tokens' worth, four bytes a token) and depth (the needle
// stands behind 0, 25, 50, 75 and 100 percent of the part). Parts end where a paragraph or a
// sentence does, and so does what stands before the needle. The passages are of at most 512 tokens'
// worth, beside the needle. Ids name depth, length and number, as in "needle-d25-l2000-3"; the
// first fifteen are one of each kind. `origin` names the text in errors. Throws
// Error(kInvalidRequest) for a text that is not UTF-8 or shorter than two of the longest parts.
std::vector<Sample> make_needles(std::string_view text, std::string_view origin,
                                 const ReadLimits& limits);

}  // namespace tessera
