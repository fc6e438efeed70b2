#pragma once
// Scores of short answers, as SQuAD defines them (Rajpurkar et al. 2016, section 6.1): lower case,
// no punctuation, no articles, white space folded; and the likelihood of a given answer. Pure;
// thread-safe.
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

// Mean of -log softmax(row i)[tokens[i]] in nats, over rows of logits [n, n_vocab]; further tokens
// are not scored. Needs at least one row and as many tokens, all of them below n_vocab.
double mean_nll(std::span<const float> logits, std::span<const int32_t> tokens, int32_t n_vocab);

// Of an even number of values the mean of the two in the middle. Must not be empty.
double median(std::vector<double> values);

}  // namespace tessera
