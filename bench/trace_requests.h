#pragma once
// What a trace asks, and in which order: the questions of QA files, drawn with a skew over their
// articles. Pure: the same seed gives the same stream. Thread-safe.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/request.h"

namespace tessera {

struct TraceQuestion {
  std::string id;
  std::string question;              // no two are alike
  std::string article;               // what the skew is over
  std::vector<std::string> answers;  // alternatives
  std::string source;                // file
};

struct TraceData {
  std::vector<TraceQuestion> questions;
  std::vector<PassageText> passages;  // to retrieve from, each once
  size_t n_dropped = 0;               // questions whose text was there before
};

// Adds the questions and passages of a file of the form that docs/EVAL.md describes. The article is
// its `meta.article`; where there is none, the title of the first passage that supports the answer,
// or of the first one. A question whose text is there already is dropped: asked again, it would
// retrieve the same prompt. Throws as parse_qa does.
void add_questions(std::string_view text, std::string_view origin, TraceData& data);

// Adds passages alone. Throws as parse_passages does.
void add_passages(std::string_view text, std::string_view origin, TraceData& data);

struct StreamOptions {
  uint64_t seed = 0;
  double skew = 1.1;      // s of Zipf's law; 0: every article alike
  size_t n_articles = 0;  // the likeliest ones; 0: all
  // The first so many requests ask no question twice: too few questions are an error. Later ones
  // ask those of an article again when all of them were asked.
  size_t n_distinct = std::numeric_limits<size_t>::max();
};

// std::shuffle differs between libraries.
template <typename T>
void shuffle_values(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t n = values.size(); n > 1; --n)
    std::swap(values[n - 1], values[draw_below(random, n)]);
}

// Numbers of questions, in the order in which they are asked. Articles are ranked by a shuffle and
// drawn by Zipf's law from those that have questions left; of the drawn one a question is taken
// that was not asked yet, or since all of that article were (StreamOptions::n_distinct). Throws
// Error(kInvalidRequest) when there are too few.
std::vector<size_t> draw_stream(std::span<const TraceQuestion> questions, size_t n_requests,
                                const StreamOptions& options);

using PassageList = std::vector<size_t>;  // in the order of the prompt

// Shuffles lists that were there before, until no two are the same; gives how many that were.
// Throws Error(kInvalidRequest) where a list has no order left that is new.
size_t make_novel(std::vector<PassageList>& lists, uint64_t seed);

// Share of lists that were there before, 0..1.
double repeated_share(std::span<const PassageList> lists);

// Share of all places that the most used tenth of the passages takes, of those that are used: how
// skewed the contexts are.
double top_tenth_share(std::span<const PassageList> lists);

}  // namespace tessera
