#include "eval/sample_needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/text_util.h"
#include "eval/rechunk.h"
#include "eval/sample_lines.h"
#include "retrieval/cut_points.h"

namespace tessera {
namespace {

constexpr uint64_t kSeed = 1;
constexpr std::array<size_t, 3> kLengths = {1000, 2000, 4000};   // tokens' worth
constexpr std::array<size_t, 5> kDepths = {0, 25, 50, 75, 100};  // percent
constexpr size_t kRepeats = 5;
constexpr size_t kPassageBytes = size_t{kPassageTokens} * kBytesPerToken;
// How far before a place the end of a sentence is looked for: few are longer.
constexpr size_t kSentenceBytes = 512;
constexpr const char* kQuestion = "Which number opens the harbour gate?";

// Where a sentence, or at least a word, ends in text[0, at), near its end.
size_t end_before(std::string_view text, size_t at) {
  at = utf8_floor(text, at);
  const size_t from = utf8_floor(text, at - std::min(at, kSentenceBytes));
  return from == at ? at : best_cut(text, from, at);
}

// A part of about `n_bytes` that begins and ends with sentences.
std::string_view part_of(std::string_view text, size_t n_bytes, std::mt19937_64& random) {
  const size_t drawn = draw_below(random, text.size() - n_bytes);
  const std::string_view from = text.substr(end_before(text, drawn));
  return trimmed(from.substr(0, end_before(from, n_bytes)));
}

// The haystack is cut before the needle is put in, so that it is never cut itself, and all other
// passages are the same at every depth.
std::vector<MarkedPassage> passages_with(std::string_view haystack, size_t depth,
                                         std::string_view needle) {
  const size_t n_before = haystack.size() * depth / 100;
  const size_t at = depth == 100 ? n_before : end_before(haystack, n_before);
  std::vector<MarkedPassage> out;
  bool is_placed = false;
  for (const std::string_view piece : cut_text(haystack, kPassageBytes)) {
    const auto begin = static_cast<size_t>(piece.data() - haystack.data());
    MarkedPassage& passage = out.emplace_back();
    passage.passage.text = piece;
    if (is_placed || at > begin + piece.size()) continue;
    is_placed = passage.is_supporting = true;
    const size_t inside = at - std::min(at, begin);
    const std::string_view before = trimmed(piece.substr(0, inside));
    const std::string_view rest = trimmed(piece.substr(inside));
    passage.passage.text = fmt::format("{}{}{}{}{}", before, before.empty() ? "" : " ", needle,
                                       rest.empty() ? "" : " ", rest);
  }
  return out;
}

// A question for each depth: only the place differs, for all are about one haystack.
void add_depths(std::string_view haystack, const std::string& suffix, std::mt19937_64& random,
                size_t n_passages, std::vector<Sample>& out) {
  for (const size_t depth : kDepths) {
    const std::string number = std::to_string(100'000 + draw_below(random, 900'000));
    Sample& sample = out.emplace_back();
    sample.id = fmt::format("needle-d{}-{}", depth, suffix);
    sample.question = kQuestion;
    sample.answers = {number};
    const std::string needle = fmt::format("The number that opens the harbour gate is {}.", number);
    sample.passages = limit_passages(passages_with(haystack, depth, needle), n_passages);
  }
}

[[noreturn]] void refuse(std::string_view origin, const std::string& why) {
  throw Error(ErrorCode::kInvalidRequest, fmt::format("{} - {}", origin, why));
}

void check(std::string_view text, std::string_view origin) {
  const size_t n_needed = 2 * kLengths.back() * kBytesPerToken;
  if (const std::optional<size_t> bad = invalid_utf8_offset(text))
    refuse(origin, fmt::format("is not valid UTF-8 at byte {} - give a plain text", *bad));
  if (text.find('\0') != std::string_view::npos)
    refuse(origin, "holds a zero byte - give a plain text");
  if (text.size() < n_needed) {
    refuse(origin, fmt::format("has {} bytes, too few to hide something in - give a text of at "
                               "least {}",
                               text.size(), n_needed));
  }
}

}  // namespace

std::vector<Sample> make_needles(std::string_view text, std::string_view origin,
                                 const ReadLimits& limits) {
  check(text, origin);
  std::mt19937_64 random(kSeed);
  std::vector<Sample> out;
  for (size_t repeat = 1; repeat <= kRepeats; ++repeat) {
    for (const size_t length : kLengths) {
      const std::string_view haystack = part_of(text, length * kBytesPerToken, random);
      if (haystack.empty())
        refuse(origin, "has long parts of white space alone - give a text of sentences");
      add_depths(haystack, fmt::format("l{}-{}", length, repeat), random, limits.n_passages, out);
    }
  }
  if (limits.n_samples != 0) out.resize(std::min(out.size(), limits.n_samples));
  return out;
}

}  // namespace tessera
