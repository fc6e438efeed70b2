#include "eval/passage_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    return error.what();
  }
  return "";
}

Sample sample(const std::string& id, const std::string& question,
              const std::vector<PassageText>& passages = {}) {
  return {id, question, {"answer"}, passages};
}

std::vector<std::string> texts(const Sample& of) {
  std::vector<std::string> out;
  for (const PassageText& p : of.passages) out.push_back(p.text);
  return out;
}

class Retrieval : public testing::Test {
 protected:
  void retrieve(std::vector<EvalSet>& sets, const std::vector<PassageText>& corpus, int32_t k) {
    retrieve_passages(sets, corpus, k, folder_.path() / "documents.db");
  }
  store_testing::ScratchDir folder_;
};

TEST_F(Retrieval, SearchGivesPlacesOfWhatWasIndexedLast) {
  PassageSearch search(folder_.path() / "documents.db");
  search.index(std::vector<PassageText>{{"", "a river"}, {"", "a mountain"}});
  search.index(std::vector<PassageText>{{"", "a city"}, {"", "no water"}, {"", "a river, river"}});

  EXPECT_THAT(search.best("which river", 5), ElementsAre(2));
  EXPECT_THAT(search.best("city or river or water", 2), testing::SizeIs(2));
  EXPECT_THAT(search.best("mountain", 5), testing::IsEmpty());
}

TEST_F(Retrieval, QuestionsGetTheBestOfTheCorpusAndOfAllQuestions) {
  std::vector<EvalSet> sets = {
      {"one", {sample("a", "where does the rhine rise", {{"", "own text of no use"}})}},
      {"two", {sample("b", "how high is the zugspitze", {{"", "the rhine is long"}})}}};

  retrieve(sets, {{"", "the zugspitze is high"}, {"Rhine", "it does rise in the alps"}}, 2);

  EXPECT_THAT(texts(sets[0].samples[0]),
              ElementsAre("it does rise in the alps", "the rhine is long"));
  EXPECT_THAT(texts(sets[1].samples[0]), ElementsAre("the zugspitze is high"));
}

TEST_F(Retrieval, PassageThatIsThereTwiceIsRetrievedOnce) {
  std::vector<EvalSet> sets = {{"one", {sample("a", "rhine", {{"", "the rhine"}})}}};
  retrieve(sets, {{"", "the rhine"}, {"", "the rhine"}}, 5);
  EXPECT_THAT(texts(sets[0].samples[0]), ElementsAre("the rhine"));
}

TEST_F(Retrieval, QuestionWithoutAnyHitIsNamed) {
  std::vector<EvalSet> sets = {{"one", {sample("a", "rhine"), sample("b", "danube")}}};
  EXPECT_THAT(error_of([&] { retrieve(sets, {{"", "the rhine"}}, 5); }),
              testing::AllOf(HasSubstr("'b' of 'one'"), HasSubstr("--corpus")));
}

TEST_F(Retrieval, WithoutAnyPassageACorpusIsAskedFor) {
  std::vector<EvalSet> sets = {{"one", {sample("a", "rhine")}}};
  EXPECT_THAT(error_of([&] { retrieve(sets, {}, 5); }), HasSubstr("--corpus FILE.jsonl"));
}

TEST(ParsePassages, ReadsTitlesThatMayBeMissing) {
  const std::vector<PassageText> all =
      parse_passages("{\"id\":\"x\",\"title\":\"T\",\"text\":\"one\"}\n\n{\"text\":\"two\"}", "c");

  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].title, "T");
  EXPECT_EQ(all[1].title, "");
  EXPECT_EQ(all[1].text, "two");
}

TEST(ParsePassages, BadLineIsNamedWithItsNumber) {
  const std::string good = "{\"text\":\"one\"}\n";
  const auto said = [](const std::string& text) {
    return error_of([&] { parse_passages(text, "c.jsonl"); });
  };
  EXPECT_THAT(said(good + "{\"title\":\"T\"}"), HasSubstr("c.jsonl line 2 - \"text\" is missing"));
  EXPECT_THAT(said(good + "{\"text\":\" \"}"), HasSubstr("line 2 - \"text\" is empty"));
  EXPECT_THAT(said(good + "text"), HasSubstr("line 2 - is not JSON"));
  EXPECT_THAT(said("\n"), HasSubstr("holds no passage"));
}

TEST(PassagesDigest, ChangesWithTextTitleAndOrder) {
  const std::vector<PassageText> all = {{"T", "one"}, {"", "two"}};
  const std::vector<PassageText> turned = {all[1], all[0]};
  const std::vector<PassageText> renamed = {{"U", "one"}, {"", "two"}};

  EXPECT_EQ(passages_digest(all).size(), 64U);
  EXPECT_EQ(passages_digest(all), passages_digest(std::vector<PassageText>(all)));
  EXPECT_NE(passages_digest(all), passages_digest(turned));
  EXPECT_NE(passages_digest(all), passages_digest(renamed));
}

}  // namespace
}  // namespace tessera
