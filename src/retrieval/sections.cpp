#include "retrieval/sections.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tessera {
namespace {

// A longer line is a paragraph, whatever its mark-up: as a title it would fill the chunks.
constexpr size_t kMaxHeadingBytes = 200;
constexpr size_t kMaxPlainTitleBytes = 80;
// A line of plain text with more text right below it is a title only when it is shorter than
// wrapped prose.
constexpr size_t kMaxTightTitleBytes = 40;
constexpr size_t kMaxIndent = 3;  // four spaces make code

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

struct Line {
  size_t begin = 0;
  size_t end = 0;  // behind the line break
};

Line line_at(std::string_view text, size_t begin) {
  const size_t newline = text.find('\n', begin);
  return {begin, newline == std::string_view::npos ? text.size() : newline + 1};
}

std::string_view slice(std::string_view text, Line line) {
  return text.substr(line.begin, line.end - line.begin);
}

size_t run_length(std::string_view s, char c) {
  const size_t end = s.find_first_not_of(c);
  return end == std::string_view::npos ? s.size() : end;
}

struct Heading {
  size_t level = 0;
  std::string title;
  size_t begin = 0;
  size_t end = 0;  // behind its line, or its underline
};

// The line without its indent, or empty when the indent makes it code.
std::string_view unindented(std::string_view line) {
  const size_t indent = run_length(line, ' ');
  return indent <= kMaxIndent ? trimmed(line) : std::string_view();
}

std::optional<Heading> atx_heading(std::string_view text, Line line) {
  const std::string_view content = unindented(slice(text, line));
  const size_t level = run_length(content, '#');
  if (level == 0 || level > 6 || content.size() > kMaxHeadingBytes) return std::nullopt;
  std::string_view title = content.substr(level);
  if (title.empty() || !is_space(title.front())) return std::nullopt;
  title = trimmed(title);
  // A closing run of '#' is mark-up only behind a space: "C#" is a word.
  const size_t last = title.find_last_not_of('#');
  if (last == std::string_view::npos) return std::nullopt;
  if (is_space(title[last])) title = trimmed(title.substr(0, last));
  return Heading{level, std::string(title), line.begin, line.end};
}

bool starts_another_block(std::string_view content) {
  if (std::string_view(">|<").find(content.front()) != std::string_view::npos) return true;
  if (content.size() > 1 && std::string_view("-*+").find(content[0]) != std::string_view::npos) {
    return is_space(content[1]) || content[1] == content[0];
  }
  const size_t digits = content.find_first_not_of("0123456789");
  return digits > 0 && digits != std::string_view::npos && digits + 1 < content.size() &&
         (content[digits] == '.' || content[digits] == ')') && is_space(content[digits + 1]);
}

// A line underlined with = or -. The caller knows that a blank line or another block stands above
// it: a paragraph of several lines is no title here, unlike in CommonMark.
std::optional<Heading> setext_heading(std::string_view text, Line line) {
  const std::string_view content = unindented(slice(text, line));
  if (content.empty() || content.size() > kMaxHeadingBytes || starts_another_block(content))
    return std::nullopt;
  if (line.end >= text.size()) return std::nullopt;
  const Line below = line_at(text, line.end);
  const std::string_view rule = unindented(slice(text, below));
  if (rule.size() < 2 || (rule[0] != '=' && rule[0] != '-')) return std::nullopt;
  if (run_length(rule, rule[0]) != rule.size()) return std::nullopt;
  return Heading{rule[0] == '=' ? size_t(1) : size_t(2), std::string(content), line.begin,
                 below.end};
}

// The opening or closing line of a fenced code block: its character and how many, or a length of 0.
struct Fence {
  char mark = 0;
  size_t length = 0;
  bool has_info = false;
};

Fence fence_of(std::string_view line) {
  const std::string_view content = unindented(line);
  if (content.empty() || (content[0] != '`' && content[0] != '~')) return {};
  const size_t length = run_length(content, content[0]);
  const std::string_view info = content.substr(length);
  if (length < 3 || (content[0] == '`' && info.find('`') != std::string_view::npos)) return {};
  return {content[0], length, !trimmed(info).empty()};
}

// Behind the front matter (--- lines around YAML at the very start), or `begin` when there is none.
size_t skip_front_matter(std::string_view text, size_t begin) {
  if (begin >= text.size()) return begin;
  Line line = line_at(text, begin);
  if (trimmed(slice(text, line)) != "---") return begin;
  while (line.end < text.size()) {
    line = line_at(text, line.end);
    const std::string_view content = trimmed(slice(text, line));
    if (content == "---" || content == "...") return line.end;
  }
  return begin;
}

std::vector<Heading> markdown_headings(std::string_view text, size_t begin) {
  std::vector<Heading> headings;
  Fence open;
  bool after_paragraph = false;
  for (size_t at = skip_front_matter(text, begin); at < text.size();) {
    const Line line = line_at(text, at);
    at = line.end;
    const Fence fence = fence_of(slice(text, line));
    if (open.length > 0) {
      const bool closes = fence.mark == open.mark && fence.length >= open.length && !fence.has_info;
      if (closes) open = {};
      continue;
    }
    std::optional<Heading> heading;
    if (fence.length > 0) {
      open = fence;
    } else {
      heading = atx_heading(text, line);
      if (!heading && !after_paragraph) heading = setext_heading(text, line);
    }
    after_paragraph = fence.length == 0 && !heading && !trimmed(slice(text, line)).empty();
    if (!heading) continue;
    at = heading->end;
    headings.push_back(std::move(*heading));
  }
  return headings;
}

bool is_blank(std::string_view text, size_t begin, size_t end) {
  return std::all_of(text.begin() + ptrdiff_t(begin), text.begin() + ptrdiff_t(end), is_space);
}

// Leaves the headings that have text or a deeper heading right under them.
void drop_bare_headings(std::string_view text, std::vector<Heading>& headings) {
  std::vector<Heading> kept;
  for (size_t i = 0; i < headings.size(); ++i) {
    const bool is_last = i + 1 == headings.size();
    const size_t end = is_last ? text.size() : headings[i + 1].begin;
    const bool has_child = !is_last && headings[i + 1].level > headings[i].level;
    if (has_child || !is_blank(text, headings[i].end, end)) kept.push_back(headings[i]);
  }
  headings = std::move(kept);
}

std::vector<Section> markdown_sections(std::string_view text, size_t begin,
                                       std::string_view fallback_title) {
  std::vector<Heading> headings = markdown_headings(text, begin);
  drop_bare_headings(text, headings);
  const auto n_top = std::count_if(headings.begin(), headings.end(),
                                   [](const Heading& h) { return h.level == 1; });
  const bool has_own_title =
      n_top == 1 && headings[0].level == 1 && is_blank(text, begin, headings[0].begin);

  std::vector<std::string> path;
  if (!fallback_title.empty() && !has_own_title) path.emplace_back(fallback_title);
  const size_t n_title = path.size();
  std::vector<size_t> levels;  // of the open headings
  std::vector<Section> sections;
  const size_t first = headings.empty() ? text.size() : headings[0].begin;
  if (first > begin) sections.push_back({path, begin, begin, first, is_blank(text, begin, first)});
  for (size_t i = 0; i < headings.size(); ++i) {
    const Heading& h = headings[i];
    while (!levels.empty() && levels.back() >= h.level) levels.pop_back();
    path.resize(n_title + levels.size());
    levels.push_back(h.level);
    path.push_back(h.title);
    const size_t end = i + 1 < headings.size() ? headings[i + 1].begin : text.size();
    sections.push_back({path, h.begin, h.end, end, is_blank(text, h.end, end)});
  }
  return sections;
}

std::vector<Section> plain_sections(std::string_view text, size_t begin,
                                    std::string_view fallback_title) {
  size_t first = begin;
  while (first < text.size() && is_space(text[first])) ++first;
  if (first == text.size()) return {};
  const Line line = line_at(text, first);
  const std::string_view title = trimmed(slice(text, line));
  const bool ends_a_sentence =
      std::string_view(".!?;:,").find(title.back()) != std::string_view::npos;
  const bool stands_alone =
      line.end < text.size() && trimmed(slice(text, line_at(text, line.end))).empty();
  const bool is_short = title.size() <= (stands_alone ? kMaxPlainTitleBytes : kMaxTightTitleBytes);
  if (is_short && !ends_a_sentence && !is_blank(text, line.end, text.size())) {
    return {{{std::string(title)}, first, line.end, text.size(), false}};
  }
  std::vector<std::string> path;
  if (!fallback_title.empty()) path.emplace_back(fallback_title);
  return {{path, begin, begin, text.size(), false}};
}

}  // namespace

std::vector<Section> find_sections(std::string_view text, size_t begin, DocumentFormat format,
                                   std::string_view fallback_title) {
  if (format == DocumentFormat::kMarkdown) return markdown_sections(text, begin, fallback_title);
  return plain_sections(text, begin, fallback_title);
}

}  // namespace tessera
