#include "retrieval/cut_points.h"

#include <algorithm>
#include <array>
#include <string>

#include "retrieval/sections.h"

namespace tessera {
namespace {

enum CutKind : size_t { kParagraph, kSentence, kLine, kWord, kCutKinds };

// Words whose full stop does not end a sentence. Sorted.
constexpr std::string_view kAbbreviations[] = {
    "al",  "approx", "apr",  "art",  "aug", "ave", "ca",   "capt", "cf",  "ch",   "co",
    "col", "corp",   "dec",  "dept", "dr",  "ed",  "eds",  "eq",   "esp", "est",  "feb",
    "fig", "figs",   "gen",  "gov",  "hon", "inc", "jan",  "jr",   "jul", "jun",  "lt",
    "ltd", "maj",    "mar",  "mr",   "mrs", "ms",  "mt",   "no",   "nos", "nov",  "oct",
    "op",  "pp",     "pres", "prof", "rep", "rev", "sec",  "sen",  "sep", "sept", "sgt",
    "sr",  "st",     "ste",  "univ", "viz", "vol", "vols", "vs"};

static_assert(std::is_sorted(std::begin(kAbbreviations), std::end(kAbbreviations)));

constexpr std::string_view kClosing[] = {")", "]",      "\"",     "'",     "*",
                                         "_", "\u201d", "\u2019", "\u00bb"};
constexpr std::string_view kCjkClosing[] = {"\u300d", "\u300f", "\u201d", "\uff09", "\u2019"};
constexpr std::string_view kCjkStops[] = {"\u3002", "\uff01", "\uff1f"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

template <size_t N>
size_t suffix_length(std::string_view text, const std::string_view (&endings)[N]) {
  for (const std::string_view ending : endings) {
    if (text.ends_with(ending)) return ending.size();
  }
  return 0;
}

template <size_t N>
std::string_view without_suffixes(std::string_view text, const std::string_view (&endings)[N]) {
  while (const size_t length = suffix_length(text, endings)) text.remove_suffix(length);
  return text;
}

// Whether the full stop behind `before` belongs to an abbreviation (Dr.), an initial (J.), a dotted
// one (U.S.) or the number of a list entry.
bool stop_is_inside_sentence(std::string_view before) {
  size_t begin = before.size();
  while (begin > 0 && !is_space(before[begin - 1])) --begin;
  const bool starts_line = begin == 0 || before[begin - 1] == '\n';
  std::string_view word = before.substr(begin);
  while (!word.empty() &&
         std::string_view("([\"'*_").find(word.front()) != std::string_view::npos) {
    word.remove_prefix(1);
  }
  if (word.empty()) return false;
  if (std::all_of(word.begin(), word.end(), is_digit)) return starts_line;
  if (!std::all_of(word.begin(), word.end(), [](char c) { return is_ascii_letter(c) || c == '.'; }))
    return false;
  if (word.size() == 1 || word.find('.') != std::string_view::npos) return true;
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(c | 0x20);  // letters only, see above
  return std::binary_search(std::begin(kAbbreviations), std::end(kAbbreviations), lower);
}

// Whether a sentence ends with `before`, which white space or the end follows, then `next` (0 at
// the end).
bool ends_sentence(std::string_view before, char next) {
  before = without_suffixes(before, kClosing);
  if (before.empty()) return false;
  const char stop = before.back();
  if (stop == '!' || stop == '?' || before.ends_with("\u2026")) return true;
  if (stop != '.' || (next >= 'a' && next <= 'z')) return false;
  return !stop_is_inside_sentence(before.substr(0, before.size() - 1));
}

bool ends_cjk_sentence(std::string_view before, std::string_view after) {
  if (before.empty() || static_cast<unsigned char>(before.back()) < 0x80) return false;
  if (suffix_length(without_suffixes(before, kCjkClosing), kCjkStops) == 0) return false;
  return std::none_of(std::begin(kCjkClosing), std::end(kCjkClosing),
                      [after](std::string_view closing) { return after.starts_with(closing); });
}

// What kind of cut lies before the white space text[at, end_of_space).
CutKind kind_of_gap(std::string_view text, size_t begin, size_t at) {
  size_t newlines = 0;
  size_t next = at;
  for (; next < text.size() && is_space(text[next]); ++next) newlines += text[next] == '\n' ? 1 : 0;
  if (newlines >= 2 || next == text.size()) return kParagraph;
  if (ends_sentence(text.substr(begin, at - begin), text[next])) return kSentence;
  return newlines == 1 ? kLine : kWord;
}

}  // namespace

size_t best_cut(std::string_view text, size_t begin, size_t end) {
  std::array<size_t, kCutKinds> early{};
  std::array<size_t, kCutKinds> late{};
  const size_t third = begin + (end - begin) / 3;
  const auto note = [&](CutKind kind, size_t at) { (at > third ? late : early)[kind] = at; };
  for (size_t at = begin + 1; at <= end; ++at) {
    if (at == text.size()) return end;
    const bool gap_begins = is_space(text[at]) && !is_space(text[at - 1]);
    if (gap_begins) note(kind_of_gap(text, begin, at), at);
    if (!is_space(text[at]) && ends_cjk_sentence(text.substr(begin, at - begin), text.substr(at)))
      note(kSentence, at);
  }
  for (const auto& cuts : {late, early}) {
    for (const size_t at : cuts) {
      if (at != 0) return at;  // cuts lie behind `begin`, so 0 is none
    }
  }
  return end;
}

}  // namespace tessera
