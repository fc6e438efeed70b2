#pragma once
// From a user's question to an FTS5 query. Pure; thread-safe.
#include <string>
#include <string_view>

namespace tessera {

// Any of the words of `text`, each quoted, so that nothing in it is an operator. English function
// words are left out when other words remain, and words beyond 64 are. Empty when there are no
// words.
std::string match_expression(std::string_view text);

}  // namespace tessera
