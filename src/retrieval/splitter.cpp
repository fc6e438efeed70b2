// Greedy packing. Neighbouring sections share a passage when they fit together, under the headings
// they have in common and with the other heading lines in the text: else a document of short
// sections would shatter into chunks of a few tokens, each a retrieval candidate too small to
// answer anything. A section that does not fit alone is cut inside, and its parts are never joined
// with another section.
#include "retrieval/splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/text_util.h"
#include "retrieval/cut_points.h"
#include "retrieval/sections.h"

namespace tessera {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kPathSeparator = " > ";

// The largest x in [low, high] for which fits(x), taking it for true at `low` and for monotone, to
// within 1/64 of the distance from `low`. Starts at `guess` and moves away from it by doubled
// steps, so that fits() is not asked about much more than what it allows.
template <typename Fits>
size_t last_fit(size_t low, size_t high, size_t guess, const Fits& fits) {
  const size_t start = low;
  size_t bad = high + 1;  // the least x known not to fit
  size_t x = std::clamp(guess, std::min(low + 1, high), high);
  size_t step = std::max<size_t>(1, (x - low) / 4);
  while (low < high && (bad > high || bad - low > 1 + (low - start) / 64)) {
    (fits(x) ? low : bad) = x;
    x = bad > high ? std::min(high, low + step) : low + (bad - low) / 2;
    step *= 2;
  }
  return low;
}

std::string join(std::span<const std::string> path) {
  std::string out;
  for (const std::string& part : path) {
    if (!out.empty()) out += kPathSeparator;
    out += part;
  }
  return out;
}

using Path = std::span<const std::string>;

bool is_prefix(Path prefix, Path path) {
  return prefix.size() <= path.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

// Headings that all sections with a body have in common, or nothing when none has a body.
std::optional<Path> common_path(std::span<const Section> group) {
  std::optional<Path> common;
  for (const Section& s : group) {
    if (s.is_blank) continue;
    if (!common) common = s.path;
    const auto end =
        std::mismatch(common->begin(), common->end(), s.path.begin(), s.path.end()).first;
    common = common->first(size_t(end - common->begin()));
  }
  return common;
}

// A title on one line in UTF-8, whatever bytes a file name may have.
std::string clean_title(std::string_view text) {
  std::string title(text);
  while (const std::optional<size_t> malformed = invalid_utf8_offset(title))
    title[*malformed] = '?';
  std::replace_if(title.begin(), title.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return title;
}

class Splitter {
 public:
  Splitter(std::string_view text, const SplitOptions& options) : text_(text), options_(options) {}

  std::vector<Passage> run(std::span<const Section> sections) {
    for (size_t i = 0; i < sections.size();) {
      const std::span<const Section> rest = sections.subspan(i);
      if (!group_fits(rest.first(1))) {
        split_section(rest[0]);
        ++i;
        continue;
      }
      const size_t n = group_size(rest);
      const Draft draft = draft_of(rest.first(n));
      emit(draft.title, draft.begin, draft.end);
      i += n;
    }
    return std::move(passages_);
  }

 private:
  // A passage that may be tried for size. The range may have white space at its ends.
  struct Draft {
    std::string title;
    size_t begin = 0;
    size_t end = 0;
  };

  // Sections as one passage: headings that are in the title are left out at the front.
  Draft draft_of(std::span<const Section> group) const {
    const std::optional<Path> title = common_path(group);
    if (!title) return {};
    while (group[0].is_blank && is_prefix(group[0].path, *title)) group = group.subspan(1);
    const size_t begin = is_prefix(group[0].path, *title) ? group[0].body_begin : group[0].begin;
    return {fit_title(*title), begin, group.back().end};
  }

  // How many of the sections go into one passage. The first is known to fit.
  size_t group_size(std::span<const Section> sections) {
    const size_t limit = sections[0].begin + bytes_expected();
    const auto behind = std::partition_point(sections.begin(), sections.end(),
                                             [limit](const Section& s) { return s.end <= limit; });
    const auto guess = size_t(behind - sections.begin());
    size_t n = last_fit(1, sections.size(), guess,
                        [&](size_t k) { return group_fits(sections.first(k)); });
    // A heading at the end would stand without what it announces.
    while (n > 1 && sections[n - 1].is_blank) --n;
    return n;
  }

  bool group_fits(std::span<const Section> group) {
    const Draft draft = draft_of(group);
    return fits(draft.title, draft.begin, draft.end);
  }

  void split_section(const Section& section) {
    const std::string title = fit_title(section.path);
    const std::string_view text = text_.substr(0, trim_end(section.body_begin, section.end));
    for (size_t begin = skip_space(section.body_begin); begin < text.size();) {
      std::string own_title = title;
      size_t end = longest_fit(own_title, begin, text.size());
      if (end == begin) {
        own_title.clear();
        end = longest_fit(own_title, begin, text.size());
      }
      if (end == begin) refuse_limit(begin);
      if (end < text.size()) end = cut(text, own_title, begin, end);
      emit(own_title, begin, end);
      begin = skip_space(end);
    }
  }

  // The best place to cut in (begin, end], where text[begin, end) is known to fit. A shorter text
  // may have more tokens, when the cut takes a long token apart, so the place is tried too.
  size_t cut(std::string_view text, std::string_view title, size_t begin, size_t end) {
    for (size_t limit = end; limit > begin;) {
      const size_t at = best_cut(text, begin, limit);
      if (at == end || fits(title, begin, at)) return at;
      limit = utf8_floor(text, at - 1);
    }
    return end;
  }

  // Behind the longest text from `begin` that fits, give or take 1/64; `begin` when no character
  // does.
  size_t longest_fit(std::string_view title, size_t begin, size_t end) {
    const size_t found = last_fit(begin, end, begin + bytes_expected(), [&](size_t x) {
      return fits(title, begin, utf8_floor(text_, x));
    });
    return utf8_floor(text_, found);
  }

  bool fits(std::string_view title, size_t begin, size_t end) {
    end = trim_end(begin, end);
    begin = std::min(skip_space(begin), end);
    if (begin == end) return true;
    const int32_t n_tokens = options_.count_tokens(title, text_.substr(begin, end - begin));
    const double n_bytes = double(title.size() + end - begin);
    if (n_tokens > 0) bytes_per_token_ = std::max(1.0, n_bytes / n_tokens);
    return n_tokens <= options_.max_tokens;
  }

  // The path as a title of at most half of the limit: outer headings go first, then the end of the
  // last one.
  std::string fit_title(Path path) const {
    const auto fits_half = [this](const std::string& title) {
      return title.empty() || options_.count_tokens(title, {}) <= options_.max_tokens / 2;
    };
    std::string title = join(path);
    while (path.size() > 1 && !fits_half(title)) {
      path = path.subspan(1);
      title = join(path);
    }
    while (!fits_half(title)) title.resize(utf8_floor(title, title.size() / 2));
    return title;
  }

  void emit(std::string_view title, size_t begin, size_t end) {
    end = trim_end(begin, end);
    begin = std::min(skip_space(begin), end);
    if (begin == end) return;
    passages_.push_back(
        {std::string(title), std::string(text_.substr(begin, end - begin)), begin, end});
  }

  [[noreturn]] void refuse_limit(size_t offset) const {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format(
            "a chunk limit of {} tokens is too small - the character at byte {} alone has more - "
            "raise the limit",
            options_.max_tokens, offset));
  }

  size_t bytes_expected() const { return size_t(bytes_per_token_ * options_.max_tokens) + 1; }

  size_t skip_space(size_t at) const {
    while (at < text_.size() && is_space(text_[at])) ++at;
    return at;
  }

  size_t trim_end(size_t begin, size_t end) const {
    while (end > begin && is_space(text_[end - 1])) --end;
    return end;
  }

  std::string_view text_;
  const SplitOptions& options_;
  double bytes_per_token_ = 4;  // as last seen
  std::vector<Passage> passages_;
};

void check_text(std::string_view text) {
  const size_t nul = text.find('\0');
  const std::optional<size_t> malformed = invalid_utf8_offset(text.substr(0, nul));
  if (malformed) {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("the document is not UTF-8 at byte offset {} - only UTF-8 text can be read - "
                    "convert it, or leave it out",
                    *malformed));
  }
  if (nul != std::string_view::npos) {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("the document has a NUL at byte offset {} - that is binary data, not text - "
                    "convert it to text, or leave it out",
                    nul));
  }
}

}  // namespace

std::vector<Passage> split_document(std::string_view text, DocumentFormat format,
                                    std::string_view fallback_title, const SplitOptions& options) {
  CHECK(options.count_tokens != nullptr);
  if (options.max_tokens < 1) {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("a chunk limit of {} tokens is out of range - chunks need room for text - "
                    "give a positive number",
                    options.max_tokens));
  }
  check_text(text);
  const size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const std::vector<Section> sections =
      find_sections(text, begin, format, clean_title(fallback_title));
  return Splitter(text, options).run(sections);
}

}  // namespace tessera
