#include "bench/trace_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;

// `sizes`: questions of each article.
std::vector<TraceQuestion> questions_of(const std::vector<size_t>& sizes) {
  std::vector<TraceQuestion> out;
  for (size_t article = 0; article < sizes.size(); ++article) {
    for (size_t i = 0; i < sizes[article]; ++i) {
      const std::string id = std::to_string(article) + "-" + std::to_string(i);
      out.push_back(
          {id, "question " + id, "article " + std::to_string(article), {"answer"}, "file"});
    }
  }
  return out;
}

// How many requests went to each article, most first.
std::vector<size_t> requests_by_article(const std::vector<TraceQuestion>& questions,
                                        const std::vector<size_t>& stream) {
  std::map<std::string, size_t> uses;
  for (const size_t q : stream) ++uses[questions[q].article];
  std::vector<size_t> out;
  out.reserve(uses.size());
  for (const auto& [article, n] : uses) out.push_back(n);
  std::sort(out.rbegin(), out.rend());
  return out;
}

TEST(TraceRequests, SameSeedGivesSameStreamAndAnotherSeedAnother) {
  const std::vector<TraceQuestion> questions = questions_of({20, 20, 20, 20});

  const std::vector<size_t> first = draw_stream(questions, 40, {.seed = 7});

  EXPECT_EQ(first, draw_stream(questions, 40, {.seed = 7}));
  EXPECT_NE(first, draw_stream(questions, 40, {.seed = 8}));
}

TEST(TraceRequests, NoQuestionIsAskedTwiceAlsoWhenArticlesAreUsedUp) {
  const std::vector<TraceQuestion> questions = questions_of({3, 5, 1, 30});

  const std::vector<size_t> stream = draw_stream(questions, questions.size(), {.seed = 1});

  EXPECT_EQ(std::set<size_t>(stream.begin(), stream.end()).size(), questions.size());
}

TEST(TraceRequests, ArticlesFollowZipfsLaw) {
  const std::vector<TraceQuestion> questions = questions_of(std::vector<size_t>(8, size_t{2000}));

  const std::vector<size_t> skewed =
      requests_by_article(questions, draw_stream(questions, 2000, {.seed = 3}));
  const std::vector<size_t> even =
      requests_by_article(questions, draw_stream(questions, 2000, {.seed = 3, .skew = 0}));

  // Of eight articles the first gets 1 / sum(r^-1.1) = 0.398 of the requests.
  EXPECT_NEAR(static_cast<double>(skewed.front()) / 2000, 0.398, 0.04);
  EXPECT_NEAR(static_cast<double>(even.front()) / 2000, 0.125, 0.04);
}

TEST(TraceRequests, FewerArticlesAreTheLikeliest) {
  const std::vector<TraceQuestion> questions = questions_of({10, 10, 10, 10});

  const std::vector<size_t> stream = draw_stream(questions, 20, {.seed = 2, .n_articles = 2});

  EXPECT_EQ(requests_by_article(questions, stream).size(), 2);
}

TEST(TraceRequests, MoreRequestsThanQuestionsAreRefusedUnlessLaterOnesMayRepeat) {
  const std::vector<TraceQuestion> questions = questions_of({2, 2});

  EXPECT_THROW(draw_stream(questions, 5, {}), Error);
  EXPECT_THROW(draw_stream(questions, 8, {.n_distinct = 5}), Error);
  EXPECT_THROW(draw_stream({}, 1, {.n_distinct = 0}), Error);
  const std::vector<size_t> stream = draw_stream(questions, 8, {.n_distinct = 4});
  EXPECT_EQ(std::set<size_t>(stream.begin(), stream.begin() + 4).size(), 4);
}

TEST(TraceRequests, ArticlesKeepTheirSharesWhereQuestionsComeAgain) {
  const std::vector<TraceQuestion> questions = questions_of(std::vector<size_t>(10, size_t{4}));

  const std::vector<size_t> stream = draw_stream(questions, 8000, {.seed = 5, .n_distinct = 0});

  const std::vector<size_t> first(stream.begin(), stream.begin() + 2000);
  const std::vector<size_t> last(stream.end() - 2000, stream.end());
  // Of ten articles the first gets 1 / sum(r^-1.1) = 0.373 of the requests.
  for (const auto& part : {first, last}) {
    const auto most = static_cast<double>(requests_by_article(questions, part).front());
    EXPECT_NEAR(most / 2000, 0.373, 0.04);
  }
}

TEST(TraceRequests, QuestionsComeAgainWhenAllOfTheirArticleWereAsked) {
  const std::vector<TraceQuestion> questions = questions_of({3, 5});

  std::map<std::string, std::vector<size_t>> asked;
  for (const size_t q : draw_stream(questions, 100, {.seed = 1, .n_distinct = 0}))
    asked[questions[q].article].push_back(q);

  for (const auto& [article, own] : asked) {
    const size_t n = article == "article 0" ? 3 : 5;
    for (size_t i = 0; i + n <= own.size(); i += n)
      EXPECT_EQ(std::set<size_t>(&own[i], &own[i] + n).size(), n) << article << " " << i;
  }
}

TEST(TraceRequests, NovelListsHoldTheSamePassagesInOrdersThatNeverRepeat) {
  std::vector<PassageList> lists(6, PassageList{1, 2, 3});

  const size_t n_shuffled = make_novel(lists, 5);

  EXPECT_EQ(n_shuffled, 5);
  EXPECT_THAT(lists.front(), ElementsAre(1, 2, 3));
  EXPECT_EQ(repeated_share(lists), 0);
  for (PassageList list : lists) {
    std::sort(list.begin(), list.end());
    EXPECT_THAT(list, ElementsAre(1, 2, 3));
  }
}

TEST(TraceRequests, NovelListsAreRefusedWhereNoOrderIsLeft) {
  std::vector<PassageList> lists(3, PassageList{1, 2});

  EXPECT_THROW(make_novel(lists, 0), Error);
}

TEST(TraceRequests, SharesOfRepeatsAndOfTheMostUsedPassages) {
  const std::vector<PassageList> lists = {{1, 2}, {1, 2}, {1, 3}, {2, 1}};

  EXPECT_DOUBLE_EQ(repeated_share(lists), 0.25);
  EXPECT_DOUBLE_EQ(top_tenth_share(lists), 0.5);  // passage 1 takes 4 of 8 places
  EXPECT_EQ(repeated_share({}), 0);
  EXPECT_EQ(top_tenth_share({}), 0);
}

TEST(TraceRequests, ReadsArticlesAndKeepsEachPassageOnce) {
  const std::string passages =
      R"("passages":[{"title":"Rhine","text":"A river.","supporting":false},)"
      R"({"title":"Ulm","text":"A city.","supporting":true}])";
  const std::string text = R"({"id":"a","question":"q","answers":["x"],)" + passages +
                           R"(,"meta":{"article":"Rivers"}})" + "\n\n" +
                           R"({"id":"b","question":"r","answers":["y"],)" + passages + "}\n";

  TraceData data;
  add_questions(text, "file", data);
  add_passages(R"({"title":"Rhine","text":"A river."})"
               "\n"
               R"({"text":"Alone."})",
               "corpus", data);

  ASSERT_EQ(data.questions.size(), 2);
  EXPECT_EQ(data.questions[0].article, "Rivers");
  EXPECT_EQ(data.questions[1].article, "Ulm");
  ASSERT_EQ(data.passages.size(), 3);
  EXPECT_EQ(data.passages[2].text, "Alone.");
}

TEST(TraceRequests, QuestionsThatAnotherFileAskedAreDropped) {
  const auto line = [](const std::string& id, const std::string& question) {
    return R"({"id":")" + id + R"(","question":")" + question +
           R"(","answers":["x"],"passages":[{"title":"T","text":"of )" + id + "\"}]}\n";
  };

  TraceData data;
  add_questions(line("a", "q") + line("b", "r"), "one", data);
  add_questions(line("c", "r") + line("d", "s"), "two", data);

  ASSERT_EQ(data.questions.size(), 3);
  EXPECT_EQ(data.questions[1].source, "one");
  EXPECT_EQ(data.questions[2].id, "d");
  EXPECT_EQ(data.questions[2].source, "two");
  EXPECT_EQ(data.n_dropped, 1);
  EXPECT_EQ(data.passages.size(), 4);
}

TEST(TraceRequests, LinesWithoutAPassageAreRefusedByNumber) {
  TraceData data;

  try {
    add_passages("{\"text\": \"a\"}\nnot json\n", "corpus", data);
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("corpus line 2"));
  }
}

}  // namespace
}  // namespace tessera
