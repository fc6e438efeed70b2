#include "eval/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text_util.h"
#include "base/utf8.h"

namespace tessera {
namespace {

using nlohmann::json;

struct Place {
  std::string_view origin;
  size_t line = 0;
};

[[noreturn]] void refuse(const Place& at, const std::string& why) {
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("{} line {} - {} - write one question a line, as docs/EVAL.md shows",
                          at.origin, at.line, why));
}

std::string text_of(const json& item, const std::string& what, const Place& at) {
  if (!item.is_string()) refuse(at, fmt::format("{} is missing or no string", what));
  auto text = item.get<std::string>();
  if (is_blank(text)) refuse(at, fmt::format("{} is empty or white space", what));
  return text;
}

// The member `name`, or null when there is none or `object` is none.
const json& member(const json& object, const char* name) {
  static const json none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::vector<std::string> answers_of(const json& row, const Place& at) {
  const json& list = member(row, "answers");
  if (!list.is_array() || list.empty()) refuse(at, "\"answers\" is no list or holds none");
  std::vector<std::string> out;
  out.reserve(list.size());
  for (const json& answer : list) out.push_back(text_of(answer, "an answer", at));
  return out;
}

bool is_supporting(const json& passage) {
  const json& flag = member(passage, "supporting");
  return flag.is_boolean() && flag.get<bool>();
}

// Which passages a prompt of at most `limit` takes: without those that support the answer, a
// shorter prompt would ask for what it does not say.
std::vector<bool> kept_passages(const json& list, size_t limit) {
  std::vector<bool> kept(list.size(), limit == 0);
  size_t n_left = limit;
  for (const bool wanted : {true, false}) {
    for (size_t i = 0; i < list.size() && n_left > 0; ++i) {
      if (is_supporting(list[i]) != wanted) continue;
      kept[i] = true;
      --n_left;
    }
  }
  return kept;
}

std::vector<PassageText> passages_of(const json& row, size_t limit, const Place& at) {
  const json& list = member(row, "passages");
  if (!list.is_array() || list.empty()) refuse(at, "\"passages\" is no list or holds none");
  const std::vector<bool> kept = kept_passages(list, limit);
  std::vector<PassageText> out;
  for (size_t i = 0; i < list.size(); ++i) {
    const json& title = member(list[i], "title");
    if (!title.is_null() && !title.is_string())
      refuse(at, fmt::format("\"title\" of passage {} is no string", i + 1));
    std::string text =
        text_of(member(list[i], "text"), fmt::format("\"text\" of passage {}", i + 1), at);
    if (kept[i]) out.push_back({title.is_null() ? "" : title.get<std::string>(), std::move(text)});
  }
  return out;
}

json parse_line(std::string_view line, const Place& at) {
  try {
    return json::parse(line.begin(), line.end());
  } catch (const json::exception& error) {
    refuse(at, fmt::format("is not JSON: {}", error.what()));
  }
}

Sample sample_of(std::string_view line, size_t n_passages, const Place& at) {
  const json row = parse_line(line, at);
  Sample out;
  out.id = text_of(member(row, "id"), "\"id\"", at);
  out.question = text_of(member(row, "question"), "\"question\"", at);
  out.answers = answers_of(row, at);
  out.passages = passages_of(row, n_passages, at);
  return out;
}

}  // namespace

std::vector<Sample> parse_qa(std::string_view text, std::string_view origin,
                             const ReadLimits& limits) {
  std::vector<Sample> out;
  std::set<std::string> ids;
  const auto is_full = [&] { return limits.n_samples != 0 && out.size() == limits.n_samples; };
  for (Place at = {origin, 1}; !text.empty() && !is_full(); ++at.line) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const std::optional<size_t> bad = invalid_utf8_offset(line))
      refuse(at, fmt::format("is not valid UTF-8 at byte {}", *bad));
    if (is_blank(line)) continue;
    out.push_back(sample_of(line, limits.n_passages, at));
    if (!ids.insert(out.back().id).second)
      refuse(at, fmt::format("has the id {} of an earlier line", quote(out.back().id)));
  }
  if (out.empty())
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("{} - holds no question - write one a line, as docs/EVAL.md shows", origin));
  return out;
}

std::vector<Sample> read_qa_file(const std::filesystem::path& file, const ReadLimits& limits) {
  const std::optional<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes)
    throw Error(ErrorCode::kNotFound,
                fmt::format("cannot read {} - there is no such file, or it may not be read - name "
                            "a JSONL file of questions, as docs/EVAL.md shows",
                            file.string()));
  return parse_qa({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, file.string(),
                  limits);
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
  return to_hex(hash.digest()).substr(0, kDigits);
}

}  // namespace tessera
