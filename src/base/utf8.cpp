#include "base/utf8.h"

namespace tessera {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Length of the character, and the range of its second byte, which is where surrogates, overlong
// forms and values above U+10FFFF show (Unicode, table 3-7). Length 0: no character starts so.
struct Lead {
  size_t length;
  uint8_t second_min;
  uint8_t second_max;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

bool is_white_space(char32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace

Utf8Step next_utf8(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1};
  char32_t code_point = lead.length == 1 ? first : first & (0x7F >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Kind::kInvalid, i};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {Utf8Kind::kValid, lead.length, code_point};
}

std::string take_whole_characters(std::string& held) {
  std::string out;
  size_t at = 0;
  while (at < held.size()) {
    const Utf8Step step = next_utf8(std::string_view(held).substr(at));
    if (step.kind == Utf8Kind::kIncomplete) break;
    out += step.kind == Utf8Kind::kValid ? std::string_view(held).substr(at, step.length)
                                         : kReplacement;
    at += step.length;
  }
  held.erase(0, at);
  return out;
}

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind != Utf8Kind::kValid || !is_white_space(step.code_point)) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

}  // namespace tessera
