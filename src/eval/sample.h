#pragma once
// Questions with their passages, read from JSONL files of the forms that docs/EVAL.md describes.
// Pure functions, but for the file that some of them read; thread-safe.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace tessera {

// How answers are scored.
enum class Scoring {
  kShortAnswer,  // token F1 and exact match
  kSummary,      // ROUGE-L
  kChoice,       // whether the right option's letter is the likeliest
};

struct Sample {
  std::string id;  // its own among the samples of a file
  std::string
      question;  // what is searched for; a choice's holds its options, a line each: "A. ..."
  std::vector<std::string> answers;  // alternatives, at least one, none blank; of a choice: "A"
  // In the order of the prompt, none blank. None at all where they have to be retrieved.
  std::vector<PassageText> passages;
  Scoring scoring = Scoring::kShortAnswer;
  size_t n_choices = 0;  // options of a choice, at most kMaxChoices
};

inline constexpr size_t kMaxChoices = 26;
// "A" for 0.
std::string choice_letter(size_t choice);

// Its passages and question, a summary's with the request for a few sentences; all else is default.
Request request_of(const Sample& sample);

struct ReadLimits {
  size_t n_samples = 0;   // the first so many of the file; 0: all
  size_t n_passages = 0;  // of a sample: supporting ones before others, in their order; 0: all
};

// One question a line; blank lines are passed over. `origin` names the text in errors. Throw
// Error(kInvalidRequest) with the number of the line for one that does not follow the form, is not
// UTF-8 or repeats an id, and for a text without any question. Lines behind the limit are not read.
//
// parse_choices: multiple choice, without passages. parse_summaries: a question that a text of some
// sentences answers.
std::vector<Sample> parse_qa(std::string_view text, std::string_view origin,
                             const ReadLimits& limits);
std::vector<Sample> parse_choices(std::string_view text, std::string_view origin,
                                  const ReadLimits& limits);
std::vector<Sample> parse_summaries(std::string_view text, std::string_view origin,
                                    const ReadLimits& limits);

// The same of a file. Throw Error(kNotFound) when it cannot be read, Error(kInvalidRequest) when it
// is compressed, and what the parser throws.
std::vector<Sample> read_qa_file(const std::filesystem::path& file, const ReadLimits& limits);
std::vector<Sample> read_choice_file(const std::filesystem::path& file, const ReadLimits& limits);
std::vector<Sample> read_summary_file(const std::filesystem::path& file, const ReadLimits& limits);

// 16 hex digits over all that a sample holds but its id: tells whether two samples of one id are
// the same.
std::string sample_digest(const Sample& sample);

}  // namespace tessera
