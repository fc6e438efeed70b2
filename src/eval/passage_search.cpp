#include "eval/passage_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text_util.h"
#include "eval/sample_lines.h"

namespace tessera {

void PassageSearch::index(std::span<const PassageText> passages) {
  std::vector<Passage> all;
  all.reserve(passages.size());
  for (const PassageText& p : passages) all.push_back({p.title, p.text, 0, 0});
  ids_ = documents_.add_document({"passages", "", 0}, all);
}

std::vector<size_t> PassageSearch::best(std::string_view query, int32_t k) const {
  std::vector<size_t> out;
  for (const SearchHit& hit : documents_.search(query, k)) {
    const auto at = std::lower_bound(ids_.begin(), ids_.end(), hit.passage.id);
    out.push_back(static_cast<size_t>(at - ids_.begin()));
  }
  return out;
}

std::vector<PassageText> parse_passages(std::string_view text, std::string_view origin) {
  std::vector<PassageText> out;
  for_each_line(text, origin, [&](std::string_view line, const Place& at) {
    out.push_back(passage_of(parse_line(line, at), "", at));
    return true;
  });
  if (out.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("{} - holds no passage - name another --corpus, or none", origin));
  }
  return out;
}

void drop_repeats(std::vector<PassageText>& passages) {
  std::set<std::pair<std::string, std::string>> seen;
  std::erase_if(passages,
                [&](const PassageText& p) { return !seen.emplace(p.title, p.text).second; });
}

std::string passages_digest(std::span<const PassageText> passages) {
  Sha256 hash;
  for (const PassageText& passage : passages) {
    hash.field("title", passage.title);
    hash.field("text", passage.text);
  }
  return to_hex(hash.digest());
}

void retrieve_passages(std::vector<EvalSet>& sets, std::vector<PassageText> corpus, int32_t k,
                       const std::filesystem::path& index_file) {
  for (const EvalSet& set : sets) {
    for (const Sample& sample : set.samples)
      corpus.insert(corpus.end(), sample.passages.begin(), sample.passages.end());
  }
  drop_repeats(corpus);
  if (corpus.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                "there is no passage to retrieve - the questions have none of their own - give "
                "some with --corpus FILE.jsonl");
  }
  PassageSearch search(index_file);
  search.index(corpus);
  for (EvalSet& set : sets) {
    for (Sample& sample : set.samples) {
      sample.passages.clear();
      for (const size_t at : search.best(sample.question, k)) sample.passages.push_back(corpus[at]);
      if (!sample.passages.empty()) continue;
      throw Error(ErrorCode::kInvalidRequest,
                  fmt::format("question {} of {} - no passage shares a word with it - give a "
                              "larger --corpus, or leave the question out",
                              quote(sample.id), quote(set.task)));
    }
  }
}

}  // namespace tessera
