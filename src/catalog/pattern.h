#pragma once
// Regular expressions by the C library: std::regex recurses once per character of its input.
// Pure; thread-safe.
#include <optional>
#include <string>

namespace tessera {

// Whether the whole of `text` matches the POSIX extended regular expression; nothing when that is
// not a valid one.
std::optional<bool> matches_pattern(const std::string& text, const std::string& pattern);

}  // namespace tessera
