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

double median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace tessera
