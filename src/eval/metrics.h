#pragma once
// Scores of short answers, as SQuAD defines them (Rajpurkar et al. 2016, section 6.1): lower case,
// no punctuation, no articles, white space folded; of summaries, ROUGE-L (Lin 2004, section 3); and
// the likelihood of given answers. Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

std::string normalize_answer(std::string_view text);

// Token F1 of `answer` against the best of the gold answers, 0..1. Two empty texts score 1.
double token_f1(std::string_view answer, std::span<const std::string> gold);

// Whether `answer` equals one of the gold answers once both are normalised.
bool is_exact_match(std::string_view answer, std::span<const std::string> gold);

// ROUGE-L of `answer` against the best of the references, 0..1: F = 2PR / (P + R) with P and R the
// length of the longest common subsequence of words over that of the answer and of the reference.
// Words are runs of ASCII letters and digits in lower case, unstemmed. A text without words scores
// 0. Takes time by the product of both lengths.
double rouge_l(std::string_view answer, std::span<const std::string> references);

// Mean of -log softmax(row i)[tokens[i]] in nats, over rows of logits [n, n_vocab]; further tokens
// are not scored. Needs at least one row and as many tokens, all of them below n_vocab.
double mean_nll(std::span<const float> logits, std::span<const int32_t> tokens, int32_t n_vocab);

// Which of `tokens` a row of logits [n_vocab] holds for likeliest, as a place among them; of equals
// the first. Needs at least one token, all of them below n_vocab.
size_t likeliest_of(std::span<const float> logits, std::span<const int32_t> tokens);

// Of an even number of values the mean of the two in the middle. Must not be empty.
double median(std::vector<double> values);

}  // namespace tessera
