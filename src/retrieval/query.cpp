#include "retrieval/query.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace tessera {
namespace {

constexpr size_t kMaxWords = 64;

// Words that say nothing of the topic. They are in every passage, so their weight is small, but
// there are many of them in a question. Sorted; with what an apostrophe leaves behind (doctor's,
// don't).
constexpr std::string_view kStopwords[] = {
    "a",     "about", "am",    "an",    "and",    "any",   "are",  "as",    "at",    "be",   "been",
    "but",   "by",    "can",   "could", "d",      "did",   "do",   "does",  "for",   "from", "had",
    "has",   "have",  "he",    "her",   "his",    "how",   "i",    "if",    "in",    "into", "is",
    "it",    "its",   "ll",    "many",  "me",     "much",  "my",   "of",    "on",    "or",   "our",
    "re",    "s",     "shall", "she",   "should", "so",    "such", "t",     "than",  "that", "the",
    "their", "them",  "then",  "there", "these",  "they",  "this", "those", "to",    "ve",   "was",
    "we",    "were",  "what",  "when",  "where",  "which", "who",  "whom",  "whose", "why",  "will",
    "with",  "would", "you",   "your"};
static_assert(std::is_sorted(std::begin(kStopwords), std::end(kStopwords)));

bool is_ascii_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Dashes and curly quotes, CJK stops and brackets, marks of full width.
constexpr std::pair<uint32_t, uint32_t> kMarks[] = {{0x2000, 0x206F}, {0x3000, 0x3003},
                                                    {0x3008, 0x3011}, {0x3014, 0x301F},
                                                    {0xFF01, 0xFF0F}, {0xFF1A, 0xFF20}};

// Bytes of the dash, curly quote, CJK stop or other mark at `at`, or 0. Marks outside these ranges
// are left to the tokenizer of FTS5: it splits there too, but then wants the parts side by side.
size_t mark_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(text[at + i]));
  };
  if (text.size() - at < 3 || (byte(0) & 0xF0) != 0xE0) return 0;
  const uint32_t code = (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  const bool is_mark = std::any_of(std::begin(kMarks), std::end(kMarks), [code](const auto& range) {
    return code >= range.first && code <= range.second;
  });
  return is_mark ? 3 : 0;
}

// In lower case as far as ASCII goes: FTS5 folds the rest.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto flush = [&] {
    if (!word.empty() && std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(word);
    word.clear();
  };
  for (size_t at = 0; at < text.size() && words.size() < 2 * kMaxWords;) {
    const bool is_ascii = static_cast<unsigned char>(text[at]) < 0x80;
    const size_t mark = is_ascii ? 0 : mark_length(text, at);
    if (mark > 0 || (is_ascii && !is_ascii_alnum(text[at]))) {
      flush();
    } else {
      word += is_ascii && text[at] >= 'A' && text[at] <= 'Z' ? static_cast<char>(text[at] | 0x20)
                                                             : text[at];
    }
    at += std::max<size_t>(mark, 1);
  }
  flush();
  return words;
}

bool is_stopword(const std::string& word) {
  return std::binary_search(std::begin(kStopwords), std::end(kStopwords), std::string_view(word));
}

}  // namespace

std::string match_expression(std::string_view text) {
  std::vector<std::string> words = words_of(text);
  if (!std::all_of(words.begin(), words.end(), is_stopword)) {
    words.erase(std::remove_if(words.begin(), words.end(), is_stopword), words.end());
  }
  if (words.size() > kMaxWords) words.resize(kMaxWords);
  std::string expression;
  for (const std::string& word : words) {
    expression += expression.empty() ? "\"" : " OR \"";
    expression += word + "\"";
  }
  return expression;
}

}  // namespace tessera
