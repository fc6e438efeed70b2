#pragma once
// Scores of short answers, as SQuAD defines them (Rajpurkar et al. 2016, section 6.1): lower case,
// no punctuation, no articles, white space folded. Pure; thread-safe.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

std::string normalize_answer(std::string_view text);

// Token F1 of `answer` against the best of the gold answers, 0..1. Two empty texts score 1.
double token_f1(std::string_view answer, std::span<const std::string> gold);

// Of an even number of values the mean of the two in the middle. Must not be empty.
double median(std::vector<double> values);

}  // namespace tessera
