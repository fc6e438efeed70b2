#include "eval/metrics.h"

#include <algorithm>
#include <cctype>
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

double median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace tessera
