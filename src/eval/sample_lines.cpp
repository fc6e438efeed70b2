#include "eval/sample_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text_util.h"
#include "base/utf8.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::string_view kGzipMagic = "\x1f\x8b";

}  // namespace

void refuse_line(const Place& at, const std::string& why) {
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("{} line {} - {} - write one object a line, as docs/EVAL.md shows",
                          at.origin, at.line, why));
}

std::string read_text(const std::filesystem::path& file) {
  const std::optional<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes) {
    throw Error(ErrorCode::kNotFound, fmt::format("cannot read {} - there is no such file, it is a "
                                                  "folder, or it may not be read - name a file of "
                                                  "a form that docs/EVAL.md shows",
                                                  file.string()));
  }
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (text.starts_with(kGzipMagic)) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("{} is compressed - only plain text is read - unpack it with gunzip",
                            file.string()));
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

void for_each_line(std::string_view text, std::string_view origin,
                   const std::function<bool(std::string_view line, const Place& at)>& take) {
  for (Place at = {origin, 1}; !text.empty(); ++at.line) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const std::optional<size_t> bad = invalid_utf8_offset(line))
      refuse_line(at, fmt::format("is not valid UTF-8 at byte {}", *bad));
    if (!is_blank(line) && !take(line, at)) return;
  }
}

json parse_line(std::string_view line, const Place& at) {
  try {
    return json::parse(line.begin(), line.end());
  } catch (const json::exception& error) {
    refuse_line(at, fmt::format("is not JSON: {}", error.what()));
  }
}

const json& member(const json& object, const char* name) {
  static const json none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string string_of(const json& item, const std::string& what, const Place& at) {
  if (!item.is_string()) refuse_line(at, fmt::format("{} is missing or no string", what));
  auto text = item.get<std::string>();
  if (is_blank(text)) refuse_line(at, fmt::format("{} is empty or white space", what));
  return text;
}

PassageText passage_of(const json& item, const std::string& whose, const Place& at) {
  const json& title = member(item, "title");
  if (!title.is_null() && !title.is_string())
    refuse_line(at, fmt::format("\"title\"{} is no string", whose));
  std::string text = string_of(member(item, "text"), fmt::format("\"text\"{}", whose), at);
  return {title.is_null() ? "" : title.get<std::string>(), std::move(text)};
}

std::vector<std::string> answers_of(const json& row, const Place& at) {
  const json& list = member(row, "answers");
  if (!list.is_array() || list.empty()) refuse_line(at, "\"answers\" is no list or holds none");
  std::vector<std::string> out;
  out.reserve(list.size());
  for (const json& answer : list) out.push_back(string_of(answer, "an answer", at));
  return out;
}

std::vector<Sample> parse_samples(
    std::string_view text, std::string_view origin, const ReadLimits& limits,
    const std::function<Sample(const json& row, const Place& at)>& sample_of) {
  std::vector<Sample> out;
  std::set<std::string> ids;
  for_each_line(text, origin, [&](std::string_view line, const Place& at) {
    out.push_back(sample_of(parse_line(line, at), at));
    if (!ids.insert(out.back().id).second)
      refuse_line(at, fmt::format("has the id {} of an earlier line", quote(out.back().id)));
    return out.size() != limits.n_samples;
  });
  if (out.empty())
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("{} - holds no question - write one a line, as docs/EVAL.md shows", origin));
  return out;
}

std::vector<PassageText> limit_passages(std::vector<MarkedPassage> passages, size_t limit) {
  std::vector<bool> kept(passages.size(), limit == 0);
  size_t n_left = limit;
  for (const bool wanted : {true, false}) {
    for (size_t i = 0; i < passages.size() && n_left > 0; ++i) {
      if (passages[i].is_supporting != wanted) continue;
      kept[i] = true;
      --n_left;
    }
  }
  std::vector<PassageText> out;
  for (size_t i = 0; i < passages.size(); ++i) {
    if (kept[i]) out.push_back(std::move(passages[i].passage));
  }
  return out;
}

std::vector<PassageText> passages_of(const json& row, size_t limit, const Place& at) {
  const json& list = member(row, "passages");
  if (!list.is_array() || list.empty()) refuse_line(at, "\"passages\" is no list or holds none");
  std::vector<MarkedPassage> all;
  all.reserve(list.size());
  for (const json& item : list) {
    const json& flag = member(item, "supporting");
    all.push_back({passage_of(item, fmt::format(" of passage {}", all.size() + 1), at),
                   flag.is_boolean() && flag.get<bool>()});
  }
  return limit_passages(std::move(all), limit);
}

}  // namespace tessera
