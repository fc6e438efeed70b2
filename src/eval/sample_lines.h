#pragma once
// What the readers of questions and passages share: JSONL line by line, with errors that name the
// line. Pure functions, but for the file that one of them reads; thread-safe.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "eval/sample.h"

namespace tessera {

// What is cut into passages here has no tokenizer at hand.
inline constexpr size_t kBytesPerToken = 4;
inline constexpr int32_t kPassageTokens = 512;

// Where something was read.
struct Place {
  std::string_view origin;  // file
  size_t line = 0;          // counted from 1
};

// Throws Error(kInvalidRequest) naming the line, `why`, and docs/EVAL.md.
[[noreturn]] void refuse_line(const Place& at, const std::string& why);

// The whole file. Throws Error(kNotFound) when it cannot be read and Error(kInvalidRequest) when it
// is compressed.
std::string read_text(const std::filesystem::path& file);

// Without ASCII white space at both ends.
std::string_view trimmed(std::string_view text);

// Calls `take` with each line that is not blank, until it says that it has enough. Throws as
// refuse_line() for one that is not UTF-8.
void for_each_line(std::string_view text, std::string_view origin,
                   const std::function<bool(std::string_view line, const Place& at)>& take);

// The line as JSON. Throws as refuse_line() where it is none.
nlohmann::json parse_line(std::string_view line, const Place& at);

// The member `name`, or null when there is none or `object` is none.
const nlohmann::json& member(const nlohmann::json& object, const char* name);

// A string that is not blank. Throws as refuse_line(), calling it `what`.
std::string string_of(const nlohmann::json& item, const std::string& what, const Place& at);

// The member "answers": at least one, none blank. Throws as refuse_line().
std::vector<std::string> answers_of(const nlohmann::json& row, const Place& at);

// One sample a line, as `sample_of` makes it. Throws as refuse_line() for a repeated id, and
// Error(kInvalidRequest) for a text without any question. Lines behind the limit are not read.
std::vector<Sample> parse_samples(
    std::string_view text, std::string_view origin, const ReadLimits& limits,
    const std::function<Sample(const nlohmann::json& row, const Place& at)>& sample_of);

// The members "title", which may be missing, and "text". `whose` names the passage in errors, as in
// " of passage 2". Throws as refuse_line().
PassageText passage_of(const nlohmann::json& item, const std::string& whose, const Place& at);

// A passage with what a limit goes by.
struct MarkedPassage {
  PassageText passage;
  bool is_supporting = false;  // holds (part of) the answer
};

// At most `limit` of them (0: all), in their order: those that support the answer before others,
// since a prompt without them would ask for what it does not say.
std::vector<PassageText> limit_passages(std::vector<MarkedPassage> passages, size_t limit);

// The member "passages": at least one, of which limit_passages() takes so many. Throws as
// refuse_line().
std::vector<PassageText> passages_of(const nlohmann::json& row, size_t limit, const Place& at);

}  // namespace tessera
