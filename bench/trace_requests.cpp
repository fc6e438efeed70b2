#include "bench/trace_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "eval/passage_search.h"
#include "eval/sample_lines.h"

namespace tessera {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidRequest, what); }

std::string string_member(const json& object, const char* name) {
  const json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

std::string article_of(const json& row, const Sample& sample) {
  std::string article = string_member(member(row, "meta"), "article");
  if (!article.empty()) return article;
  article = sample.passages.front().title;
  for (const json& passage : row.at("passages")) {
    if (member(passage, "supporting") != true) continue;
    article = string_member(passage, "title");
    break;
  }
  return article.empty() ? sample.id : article;
}

// Articles by rank, each with the questions that were not asked yet.
class Pools {
 public:
  Pools(std::span<const TraceQuestion> questions, const StreamOptions& options)
      : random_(options.seed) {
    std::map<std::string, std::vector<size_t>> by_article;
    for (size_t i = 0; i < questions.size(); ++i) by_article[questions[i].article].push_back(i);
    for (auto& [article, own] : by_article) all_.push_back(std::move(own));
    shuffle_values(all_, random_);
    if (options.n_articles > 0 && options.n_articles < all_.size()) all_.resize(options.n_articles);
    for (size_t rank = 0; rank < all_.size(); ++rank)
      weights_.push_back(std::pow(static_cast<double>(rank + 1), -options.skew));
    left_.resize(all_.size());
    refill_empty();
  }

  size_t n_left() const { return n_left_; }

  // Each article by itself: were one that is asked through left out until all others are, the skew
  // would come and go.
  void refill_empty() {
    for (size_t i = 0; i < left_.size(); ++i) {
      if (!left_[i].empty()) continue;
      left_[i] = all_[i];
      shuffle_values(left_[i], random_);
      n_left_ += left_[i].size();
    }
  }

  size_t take() {
    CHECK(n_left_ > 0);
    std::vector<size_t>& pool = left_[draw_article()];
    const size_t question = pool.back();
    pool.pop_back();
    --n_left_;
    return question;
  }

 private:
  // Among those with questions left, which is the same as drawing until one of them comes.
  size_t draw_article() {
    double sum = 0;
    size_t last = 0;
    for (size_t i = 0; i < left_.size(); ++i) {
      if (left_[i].empty()) continue;
      sum += weights_[i];
      last = i;
    }
    constexpr double kUnit = 0x1p-53;  // of the 53 bits that a double keeps
    double at = sum * static_cast<double>(random_() >> 11) * kUnit;
    for (size_t i = 0; i < last; ++i) {
      if (left_[i].empty()) continue;
      if (at < weights_[i]) return i;
      at -= weights_[i];
    }
    return last;
  }

  std::mt19937_64 random_;
  std::vector<std::vector<size_t>> all_, left_;
  std::vector<double> weights_;
  size_t n_left_ = 0;
};

// Whether `list` had to be shuffled to become one that is not in `seen`, where it then is.
bool shuffle_until_new(PassageList& list, std::set<PassageList>& seen, std::mt19937_64& random) {
  constexpr int kMaxTries = 10000;
  int tries = 0;
  for (; !seen.insert(list).second; ++tries) {
    if (tries == kMaxTries) {
      refuse(
          fmt::format("no new order is left for a list of {} passages - too many requests ask for "
                      "the same ones - give fewer --requests, more --articles or a higher --top-k",
                      list.size()));
    }
    shuffle_values(list, random);
  }
  return tries > 0;
}

}  // namespace

void add_questions(std::string_view text, std::string_view origin, TraceData& data) {
  const std::vector<Sample> samples = parse_qa(text, origin, {});
  std::set<std::string> asked;
  for (const TraceQuestion& q : data.questions) asked.insert(q.question);
  size_t next = 0;
  // Read once more for what a Sample does not hold; parse_qa has refused what is out of form.
  for_each_line(text, origin, [&](std::string_view line, const Place& at) {
    const Sample& sample = samples[next++];
    data.passages.insert(data.passages.end(), sample.passages.begin(), sample.passages.end());
    if (!asked.insert(sample.question).second) {
      ++data.n_dropped;
      return true;
    }
    const json row = parse_line(line, at);
    data.questions.push_back(
        {sample.id, sample.question, article_of(row, sample), sample.answers, std::string(origin)});
    return true;
  });
  drop_repeats(data.passages);
}

void add_passages(std::string_view text, std::string_view origin, TraceData& data) {
  for (PassageText& passage : parse_passages(text, origin))
    data.passages.push_back(std::move(passage));
  drop_repeats(data.passages);
}

std::vector<size_t> draw_stream(std::span<const TraceQuestion> questions, size_t n_requests,
                                const StreamOptions& options) {
  Pools pools(questions, options);
  if (pools.n_left() == 0 || pools.n_left() < std::min(n_requests, options.n_distinct)) {
    refuse(
        fmt::format("{} requests - there are {} questions, and none is asked twice - give fewer "
                    "--requests, more --articles or questions, or --novel, under which questions "
                    "come again",
                    std::min(n_requests, options.n_distinct), pools.n_left()));
  }
  std::vector<size_t> out;
  out.reserve(n_requests);
  while (out.size() < n_requests) {
    if (out.size() >= options.n_distinct) pools.refill_empty();
    out.push_back(pools.take());
  }
  return out;
}

size_t make_novel(std::vector<PassageList>& lists, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<PassageList> seen;
  size_t n_shuffled = 0;
  for (PassageList& list : lists) n_shuffled += shuffle_until_new(list, seen, random) ? 1 : 0;
  return n_shuffled;
}

double repeated_share(std::span<const PassageList> lists) {
  if (lists.empty()) return 0;
  const std::set<PassageList> distinct(lists.begin(), lists.end());
  return 1.0 - static_cast<double>(distinct.size()) / static_cast<double>(lists.size());
}

double top_tenth_share(std::span<const PassageList> lists) {
  std::map<size_t, size_t> uses;
  for (const PassageList& list : lists) {
    for (const size_t passage : list) ++uses[passage];
  }
  if (uses.empty()) return 0;
  std::vector<size_t> counts;
  counts.reserve(uses.size());
  for (const auto& [passage, n] : uses) counts.push_back(n);
  std::sort(counts.rbegin(), counts.rend());
  const auto tenth = counts.begin() + static_cast<ptrdiff_t>((counts.size() + 9) / 10);
  const auto top = std::accumulate(counts.begin(), tenth, size_t{0});
  return static_cast<double>(top) /
         static_cast<double>(std::accumulate(counts.begin(), counts.end(), size_t{0}));
}

}  // namespace tessera
