#pragma once
// UTF-8 as Unicode defines it: no surrogates, no overlong forms, nothing above U+10FFFF. Pure
// functions; thread-safe.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class Utf8Kind { kValid, kInvalid, kIncomplete };

// What stands at the start of some bytes: one character, a maximal bad subsequence (at least one
// byte, to be replaced by one U+FFFD), or the beginning of a character whose other bytes are
// missing.
struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kValid;
  size_t length = 0;
  char32_t code_point = 0;  // of a valid character
};

// `bytes` must not be empty.
Utf8Step next_utf8(std::string_view bytes);

// Takes whole characters off the front of `held`, bad subsequences as U+FFFD, and leaves an
// incomplete last one.
std::string take_whole_characters(std::string& held);

// Whether valid UTF-8 holds nothing but white space (Unicode's White_Space property).
bool is_blank(std::string_view text);

}  // namespace tessera
