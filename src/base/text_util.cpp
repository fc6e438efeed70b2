#include "base/text_util.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/utf8.h"

namespace tessera {
namespace {

constexpr size_t kMaxQuoteBytes = 60;
constexpr size_t kMaxNameBytes = 64;  // longer names are no slips, and the distance is quadratic

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// Bytes of the well-formed character at `i`, or 0.
size_t utf8_length(std::string_view text, size_t i) {
  const Utf8Step step = next_utf8(text.substr(i));
  return step.kind == Utf8Kind::kValid ? step.length : 0;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Letters to change, add, remove, or swap with their neighbour (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<size_t> invalid_utf8_offset(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

size_t utf8_floor(std::string_view text, size_t offset) {
  if (offset >= text.size()) return text.size();
  while (offset > 0 && (byte_at(text, offset) & 0xC0) == 0x80) --offset;
  return offset;
}

std::string quote(std::string_view text) {
  std::string out = "'";
  size_t i = 0;
  while (i < text.size() && i < kMaxQuoteBytes) {
    const size_t length = utf8_length(text, i);
    const bool is_control = byte_at(text, i) < 0x20 || byte_at(text, i) == 0x7F;
    if (length == 0 || is_control) {
      out += fmt::format("\\x{:02x}", byte_at(text, i));
    } else {
      out += text.substr(i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return out + (i < text.size() ? "...'" : "'");
}

std::string closest_name(std::string_view name, std::span<const std::string_view> known) {
  if (name.empty() || name.size() > kMaxNameBytes) return {};
  const std::string wanted = lower(name);
  // A third of the letters may be wrong: more is another word, not a slip.
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  std::string_view found;
  for (const std::string_view candidate : known) {
    if (candidate.size() > kMaxNameBytes) continue;
    const size_t distance = edit_distance(wanted, lower(candidate));
    if (distance >= best) continue;
    best = distance;
    found = candidate;
  }
  return std::string(found);
}

std::string unknown_name(std::string_view what, std::string_view name,
                         std::span<const std::string_view> known) {
  std::string message =
      fmt::format("unknown {} {} - known: {}", what, quote(name), fmt::join(known, ", "));
  const std::string guess = closest_name(name, known);
  if (!guess.empty()) message += fmt::format(" - did you mean '{}'?", guess);
  return message;
}

}  // namespace tessera
