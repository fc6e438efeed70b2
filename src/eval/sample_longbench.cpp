#include "eval/sample_longbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text_util.h"
#include "base/utf8.h"
#include "eval/sample_lines.h"
#include "retrieval/splitter.h"

namespace tessera {
namespace {

using nlohmann::json;

struct Dataset {
  std::string_view name;
  Scoring scoring;
};
// LongBench's own metrics (its table 1) where they are among ours.
constexpr std::array kDatasets = {
    Dataset{"hotpotqa", Scoring::kShortAnswer}, Dataset{"2wikimqa", Scoring::kShortAnswer},
    Dataset{"musique", Scoring::kShortAnswer},  Dataset{"narrativeqa", Scoring::kShortAnswer},
    Dataset{"qasper", Scoring::kShortAnswer},   Dataset{"multifieldqa_en", Scoring::kShortAnswer},
    Dataset{"triviaqa", Scoring::kShortAnswer}, Dataset{"multi_news", Scoring::kSummary},
    Dataset{"samsum", Scoring::kSummary},       Dataset{"gov_report", Scoring::kSummary},
    Dataset{"qmsum", Scoring::kSummary},
};

Scoring scoring_of(const std::string& name, const Place& at) {
  std::vector<std::string_view> known;
  for (const Dataset& dataset : kDatasets) {
    if (dataset.name == name) return dataset.scoring;
    known.push_back(dataset.name);
  }
  refuse_line(at, unknown_name("\"dataset\"", name, known));
}

// Whether `line` is "Passage N:".
bool opens_passage(std::string_view line) {
  constexpr std::string_view kOpening = "Passage ";
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kOpening) || !line.ends_with(':')) return false;
  line.remove_prefix(kOpening.size());
  line.remove_suffix(1);
  return !line.empty() && line.find_first_not_of("0123456789") == std::string_view::npos;
}

// None where no line opens a passage.
std::vector<MarkedPassage> numbered_passages(std::string_view context) {
  std::vector<MarkedPassage> out;
  const auto add = [&out](std::string_view text) {
    if (!is_blank(text)) out.push_back({{"", std::string(trimmed(text))}, false});
  };
  bool has_opening = false;
  size_t begin = 0;  // of the passage
  for (size_t at = 0; at < context.size();) {
    const size_t end = std::min(context.find('\n', at), context.size());
    if (opens_passage(context.substr(at, end - at))) {
      add(context.substr(begin, at - begin));
      begin = std::min(end + 1, context.size());
      has_opening = true;
    }
    at = end + 1;
  }
  if (!has_opening) return {};
  add(context.substr(begin));
  return out;
}

std::vector<MarkedPassage> split_passages(std::string_view context) {
  SplitOptions options;
  options.max_tokens = kPassageTokens;
  options.count_tokens = [](std::string_view title, std::string_view text) {
    return static_cast<int32_t>((title.size() + text.size() + kBytesPerToken - 1) / kBytesPerToken);
  };
  std::vector<MarkedPassage> out;
  for (Passage& p : split_document(context, DocumentFormat::kPlainText, "", options))
    out.push_back({{std::move(p.title), std::move(p.text)}, false});
  return out;
}

std::string question_of(const json& row, Scoring scoring, const Place& at) {
  const json& input = member(row, "input");
  const bool is_empty = input.is_string() && is_blank(input.get_ref<const std::string&>());
  if (scoring == Scoring::kSummary && is_empty) return "What do these texts report?";
  return string_of(input, "\"input\"", at);
}

Sample sample_of(const json& row, const ReadLimits& limits, const Place& at) {
  Sample out;
  out.id = string_of(member(row, "_id"), "\"_id\"", at);
  out.scoring = scoring_of(string_of(member(row, "dataset"), "\"dataset\"", at), at);
  out.question = question_of(row, out.scoring, at);
  out.answers = answers_of(row, at);
  const std::string context = string_of(member(row, "context"), "\"context\"", at);
  if (context.find('\0') != std::string::npos) refuse_line(at, "\"context\" holds a zero byte");
  std::vector<MarkedPassage> passages = numbered_passages(context);
  if (passages.empty()) passages = split_passages(context);
  out.passages = limit_passages(std::move(passages), limits.n_passages);
  return out;
}

}  // namespace

EvalSet parse_longbench(std::string_view text, std::string_view origin, const ReadLimits& limits) {
  EvalSet out;
  out.samples = parse_samples(text, origin, limits, [&](const json& row, const Place& at) {
    Sample sample = sample_of(row, limits, at);
    const auto dataset = member(row, "dataset").get<std::string>();
    if (out.task.empty()) out.task = dataset;
    if (dataset != out.task) {
      refuse_line(at, fmt::format("is of {}, earlier lines of {}: a file holds one set",
                                  quote(dataset), quote(out.task)));
    }
    return sample;
  });
  return out;
}

EvalSet read_longbench_file(const std::filesystem::path& file, const ReadLimits& limits) {
  return parse_longbench(read_text(file), file.string(), limits);
}

}  // namespace tessera
