#include "eval/sample.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "eval/sample_lines.h"

namespace tessera {
namespace {

using nlohmann::json;

// The options of a multiple-choice question as they stand in it. A fault of one names its number.
std::vector<std::string> choices_of(const json& row, const Place& at) {
  const json& list = member(row, "choices");
  if (!list.is_array() || list.size() < 2 || list.size() > kMaxChoices) {
    refuse_line(at,
                fmt::format("\"choices\" is no list of at least 2 and at most {}", kMaxChoices));
  }
  std::vector<std::string> out;
  out.reserve(list.size());
  for (const json& choice : list)
    out.push_back(string_of(choice, fmt::format("choice {}", out.size() + 1), at));
  return out;
}

size_t right_choice_of(const json& row, size_t n_choices, const Place& at) {
  const json& answer = member(row, "answer");
  if (!answer.is_number_unsigned() || answer.get<size_t>() >= n_choices) {
    refuse_line(at, fmt::format("\"answer\" is no whole number from 0 to {}, the place of a choice",
                                n_choices - 1));
  }
  return answer.get<size_t>();
}

Sample choice_sample(const json& row, const Place& at) {
  Sample out;
  out.id = string_of(member(row, "id"), "\"id\"", at);
  out.question = string_of(member(row, "question"), "\"question\"", at);
  const std::vector<std::string> choices = choices_of(row, at);
  for (size_t i = 0; i < choices.size(); ++i)
    out.question += fmt::format("\n{}. {}", choice_letter(i), choices[i]);
  out.answers = {choice_letter(right_choice_of(row, choices.size(), at))};
  out.scoring = Scoring::kChoice;
  out.n_choices = choices.size();
  return out;
}

}  // namespace

std::string choice_letter(size_t choice) {
  CHECK(choice < kMaxChoices);
  return std::string(1, static_cast<char>('A' + choice));
}

Request request_of(const Sample& sample) {
  Request out;
  out.passages = sample.passages;
  out.question = sample.question;
  if (sample.scoring == Scoring::kSummary) out.question += " Answer in a few sentences.";
  return out;
}

std::vector<Sample> parse_qa(std::string_view text, std::string_view origin,
                             const ReadLimits& limits) {
  return parse_samples(text, origin, limits, [&](const json& row, const Place& at) {
    Sample out;
    out.id = string_of(member(row, "id"), "\"id\"", at);
    out.question = string_of(member(row, "question"), "\"question\"", at);
    out.answers = answers_of(row, at);
    out.passages = passages_of(row, limits.n_passages, at);
    return out;
  });
}

std::vector<Sample> parse_choices(std::string_view text, std::string_view origin,
                                  const ReadLimits& limits) {
  return parse_samples(text, origin, limits, choice_sample);
}

std::vector<Sample> parse_summaries(std::string_view text, std::string_view origin,
                                    const ReadLimits& limits) {
  return parse_samples(text, origin, limits, [&](const json& row, const Place& at) {
    Sample out;
    out.id = string_of(member(row, "id"), "\"id\"", at);
    out.question = string_of(member(row, "query"), "\"query\"", at);
    out.answers = {string_of(member(row, "reference"), "\"reference\"", at)};
    out.passages = passages_of(row, limits.n_passages, at);
    out.scoring = Scoring::kSummary;
    return out;
  });
}

std::vector<Sample> read_qa_file(const std::filesystem::path& file, const ReadLimits& limits) {
  return parse_qa(read_text(file), file.string(), limits);
}

std::vector<Sample> read_choice_file(const std::filesystem::path& file, const ReadLimits& limits) {
  return parse_choices(read_text(file), file.string(), limits);
}

std::vector<Sample> read_summary_file(const std::filesystem::path& file, const ReadLimits& limits) {
  return parse_summaries(read_text(file), file.string(), limits);
}

std::string sample_digest(const Sample& sample) {
  constexpr size_t kDigits = 16;
  Sha256 hash;
  hash.field("question", sample.question);
  for (const std::string& answer : sample.answers) hash.field("answer", answer);
  for (const PassageText& passage : sample.passages) {
    hash.field("title", passage.title);
    hash.field("text", passage.text);
  }
  hash.field("scoring", static_cast<uint64_t>(sample.scoring));
  hash.field("choices", sample.n_choices);
  return to_hex(hash.digest()).substr(0, kDigits);
}

}  // namespace tessera
