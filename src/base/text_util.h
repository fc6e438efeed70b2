#pragma once
// Small helpers on text that several modules want. Pure; thread-safe.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

// Offset of the first byte that does not belong to well-formed UTF-8 (overlong forms, surrogates
// and values above U+10FFFF are not well-formed), or nothing.
std::optional<size_t> invalid_utf8_offset(std::string_view text);

// The nearest char boundary of well-formed UTF-8 at or before `offset`.
size_t utf8_floor(std::string_view text, size_t offset);

// `text` in single quotes, fit for an error message or a log line: at most 60 bytes of it, control
// characters and malformed bytes as \xNN.
std::string quote(std::string_view text);

// The known name that `name` is most likely a slip of (letters wrong, missing, extra, swapped or of
// the other case), or empty when none is near.
std::string closest_name(std::string_view name, std::span<const std::string_view> known);

// "unknown WHAT 'NAME' - known: A, B - did you mean 'A'?", for errors about names.
std::string unknown_name(std::string_view what, std::string_view name,
                         std::span<const std::string_view> known);

}  // namespace tessera
