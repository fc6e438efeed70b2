#include "eval/markup.h"

#include "base/utf8.h"

namespace tessera {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

void add_character(std::string& out, std::string_view bytes, char32_t code_point) {
  switch (code_point) {
    case U'&':
      out += "&amp;";
      return;
    case U'<':
      out += "&lt;";
      return;
    case U'>':
      out += "&gt;";
      return;
    case U'"':
      out += "&quot;";
      return;
    case U'\'':
      out += "&#39;";
      return;
    case 0xFFFE:
    case 0xFFFF:
      out += kReplacement;
      return;
    default:
      if (code_point < 0x20 || code_point == 0x7F) {
        out += ' ';
      } else {
        out += bytes;
      }
  }
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind == Utf8Kind::kValid) {
      add_character(out, text.substr(0, step.length), step.code_point);
    } else {
      out += kReplacement;
    }
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace tessera
