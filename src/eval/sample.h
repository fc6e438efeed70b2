#pragma once
// Questions with their passages, read from JSONL files of the form that docs/EVAL.md describes.
// Pure functions, but for the file that one of them reads; thread-safe.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace tessera {

struct Sample {
  std::string id;  // its own among the samples of a file
  std::string question;
  std::vector<std::string> answers;   // alternatives, at least one, none blank
  std::vector<PassageText> passages;  // in the order of the prompt, at least one, none blank
};

struct ReadLimits {
  size_t n_samples = 0;   // the first so many of the file; 0: all
  size_t n_passages = 0;  // of a sample: supporting ones before others, in their order; 0: all
};

// Throws Error(kNotFound) when the file cannot be read, and what parse_qa throws.
std::vector<Sample> read_qa_file(const std::filesystem::path& file, const ReadLimits& limits);

// One question a line; blank lines are passed over. `origin` names the text in errors. Throws
// Error(kInvalidRequest) with the number of the line for one that does not follow the form, is not
// UTF-8 or repeats an id, and for a text without any question. Lines behind the limit are not read.
std::vector<Sample> parse_qa(std::string_view text, std::string_view origin,
                             const ReadLimits& limits);

// 16 hex digits over all that a sample holds: tells whether two samples of one id are the same.
std::string sample_digest(const Sample& sample);

}  // namespace tessera
