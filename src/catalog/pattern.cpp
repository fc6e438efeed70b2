#include "catalog/pattern.h"

#include <regex.h>

namespace tessera {

std::optional<bool> matches_pattern(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (::regcomp(&compiled, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    return std::nullopt;
  }
  const bool has_matched = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  // The C library stops at a NUL, so it has not seen what stands behind one.
  return has_matched && text.find('\0') == std::string::npos;
}

}  // namespace tessera
