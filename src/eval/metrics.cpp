#include "eval/metrics.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "base/check.h"

namespace tessera {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::ispunct(byte) != 0) continue;
    plain += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
  }
  std::vector<std::string> words;
  std::istringstream in(plain);
  for (std::string word; in >> word;) {
    if (word != "a" && word != "an" && word != "the") words.push_back(word);
  }
  return words;
}

double f1_of(const std::vector<std::string>& answer, const std::vector<std::string>& gold) {
  if (answer.empty() || gold.empty()) return answer.empty() && gold.empty() ? 1.0 : 0.0;
  std::map<std::string, int> left;
  for (const std::string& word : gold) ++left[word];
  int same = 0;
  for (const std::string& word : answer) same += left[word]-- > 0 ? 1 : 0;
  if (same == 0) return 0.0;
  const double precision = static_cast<double>(same) / static_cast<double>(answer.size());
  const double recall = static_cast<double>(same) / static_cast<double>(gold.size());
  return 2 * precision * recall / (precision + recall);
}

std::vector<std::string> rouge_words(std::string_view text) {
  std::vector<std::string> words;
  bool is_inside = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_part = byte < 0x80 && std::isalnum(byte) != 0;
    if (is_part && !is_inside) words.emplace_back();
    if (is_part) words.back() += static_cast<char>(std::tolower(byte));
    is_inside = is_part;
  }
  return words;
}

// Length of the longest common subsequence; one row of the table at a time.
size_t common_length(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<size_t> row(b.size() + 1, 0);
  for (const std::string& word : a) {
    size_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::string normalize_answer(std::string_view text) {
  std::string out;
  for (const std::string& word : words_of(text)) out += (out.empty() ? "" : " ") + word;
  return out;
}

double token_f1(std::string_view answer, std::span<const std::string> gold) {
  const std::vector<std::string> words = words_of(answer);
  double best = 0.0;
  for (const std::string& g : gold) best = std::max(best, f1_of(words, words_of(g)));
  return best;
}

bool is_exact_match(std::string_view answer, std::span<const std::string> gold) {
  const std::string plain = normalize_answer(answer);
  return std::any_of(gold.begin(), gold.end(),
                     [&](const std::string& g) { return normalize_answer(g) == plain; });
}

double rouge_l(std::string_view answer, std::span<const std::string> references) {
  const std::vector<std::string> words = rouge_words(answer);
  double best = 0.0;
  for (const std::string& reference : references) {
    const std::vector<std::string> wanted = rouge_words(reference);
    // 2PR / (P + R) of the shared length over each one's own.
    const auto both = static_cast<double>(words.size() + wanted.size());
    const auto common = static_cast<double>(common_length(words, wanted));
    if (common > 0) best = std::max(best, 2 * common / both);
  }
  return best;
}

double mean_nll(std::span<const float> logits, std::span<const int32_t> tokens, int32_t n_vocab) {
  const auto width = static_cast<size_t>(n_vocab);
  const size_t n = n_vocab > 0 ? logits.size() / width : 0;
  CHECK(n > 0 && logits.size() % width == 0 && tokens.size() >= n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const std::span<const float> row = logits.subspan(i * width, width);
    CHECK(tokens[i] >= 0 && tokens[i] < n_vocab);
    const double top = *std::max_element(row.begin(), row.end());
    double mass = 0;
    for (const float x : row) mass += std::exp(x - top);
    sum += top + std::log(mass) - row[static_cast<size_t>(tokens[i])];
  }
  return sum / static_cast<double>(n);
}

size_t likeliest_of(std::span<const float> logits, std::span<const int32_t> tokens) {
  const auto logit_of = [&](int32_t token) {
    CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
    return logits[static_cast<size_t>(token)];
  };
  CHECK(!tokens.empty());
  size_t best = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (logit_of(tokens[i]) > logit_of(tokens[best])) best = i;
  }
  return best;
}

double median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace tessera
