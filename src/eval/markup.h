#pragma once
// Text as XML and HTML hold it. Pure; thread-safe.
#include <string>
#include <string_view>

namespace tessera {

// `text` for the content of an element or a quoted attribute, where it can neither end that nor
// begin another. Control characters, which are not XML however they are written, become blanks, and
// malformed UTF-8 becomes U+FFFD.
std::string escape_markup(std::string_view text);

}  // namespace tessera
