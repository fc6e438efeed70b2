#include "eval/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "eval/sample_testing.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

using nlohmann::json;
using sample_testing::refusal_of;
using sample_testing::texts;
using testing::HasSubstr;

json row(const std::string& id) {
  return {{"id", id},
          {"question", "where?"},
          {"answers", {"here", "there"}},
          {"passages",
           {{{"id", "x"}, {"title", "A"}, {"text", "one"}, {"supporting", false}},
            {{"text", "two"}, {"supporting", nullptr}},
            {{"title", "C"}, {"text", "three"}, {"supporting", true}}}},
          {"meta", {{"level", "easy"}}}};
}

std::string error_of(const std::string& text) {
  return refusal_of([&text] { parse_qa(text, "q.jsonl", {}); });
}

TEST(ParseQa, ReadsEveryFieldThatCounts) {
  const std::vector<Sample> samples =
      parse_qa(row("a").dump() + "\r\n\n" + row("b").dump(), "q.jsonl", {});

  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].id, "a");
  EXPECT_EQ(samples[1].id, "b");
  EXPECT_EQ(samples[0].question, "where?");
  EXPECT_THAT(samples[0].answers, testing::ElementsAre("here", "there"));
  EXPECT_THAT(texts(samples[0]), testing::ElementsAre("one", "two", "three"));
  EXPECT_EQ(samples[0].passages[0].title, "A");
  EXPECT_EQ(samples[0].passages[1].title, "");
}

TEST(ParseQa, LimitOfSamplesLeavesLaterLinesUnread) {
  const std::string text = row("a").dump() + "\n" + row("b").dump() + "\nnot JSON\n";

  EXPECT_EQ(parse_qa(text, "q.jsonl", {.n_samples = 2}).size(), 2U);
  EXPECT_THAT(error_of(text), HasSubstr("q.jsonl line 3 - is not JSON"));
}

TEST(ParseQa, LimitOfPassagesKeepsSupportingOnesInTheirPlace) {
  const std::string text = row("a").dump();
  const auto texts_of = [&](size_t n) {
    return texts(parse_qa(text, "q.jsonl", {.n_passages = n}).front());
  };
  EXPECT_THAT(texts_of(1), testing::ElementsAre("three"));
  EXPECT_THAT(texts_of(2), testing::ElementsAre("one", "three"));
  EXPECT_THAT(texts_of(9), testing::ElementsAre("one", "two", "three"));
}

TEST(ParseQa, BadLineIsNamedWithItsNumber) {
  const auto with = [](const char* name, const json& value) {
    json bad = row("b");
    bad[name] = value;
    return row("a").dump() + "\n" + bad.dump() + "\n";
  };
  const struct {
    std::string text, words;
  } cases[] = {
      {row("a").dump() + "\n[1]\n", "\"id\" is missing"},
      {row("a").dump() + "\n{\"id\":\n", "is not JSON"},
      {row("a").dump() + "\n{\"id\": \"\xC3\x28\"}\n", "not valid UTF-8 at byte 8"},
      {with("id", 3), "\"id\" is missing or no string"},
      {with("id", "a"), "the id 'a' of an earlier line"},
      {with("question", " \t"), "\"question\" is empty"},
      {with("answers", json::array()), "\"answers\" is no list or holds none"},
      {with("answers", "here"), "\"answers\" is no list"},
      {with("answers", {"here", ""}), "an answer is empty"},
      {with("passages", json::array()), "\"passages\" is no list or holds none"},
      {with("passages", {"text"}), "\"text\" of passage 1 is missing"},
      {with("passages", json::array({{{"text", "one"}}, {{"text", "\n"}}})),
       "\"text\" of passage 2 is empty"},
      {with("passages", json::array({{{"text", "one"}, {"title", 4}}})), "\"title\" of passage 1"},
  };
  for (const auto& bad : cases) {
    EXPECT_THAT(error_of(bad.text), HasSubstr("q.jsonl line 2 - ")) << bad.text;
    EXPECT_THAT(error_of(bad.text), HasSubstr(bad.words)) << bad.text;
  }
}

TEST(ParseQa, DeeplyNestedLineIsRefused) {
  const std::string open(200'000, '['), close(200'000, ']');
  EXPECT_THAT(error_of(open), HasSubstr("is not JSON"));
  EXPECT_THAT(error_of(open + close), HasSubstr("\"id\" is missing"));
  EXPECT_THAT(error_of("{\"id\": \"a\", \"question\": \"q\", \"answers\": [\"x\"], \"passages\": " +
                       open + close + "}"),
              HasSubstr("passage 1"));
}

TEST(ParseQa, TextWithoutQuestionsIsRefused) {
  EXPECT_THAT(error_of(""), HasSubstr("holds no question"));
  EXPECT_THAT(error_of("\n \n"), HasSubstr("holds no question"));
}

json choice_row(const std::string& id) {
  return {{"id", id},
          {"question", "which?"},
          {"choices", {"a river", "a city", "none"}},
          {"answer", 1},
          {"subject", "geography"}};
}

TEST(ParseChoices, OptionsStandInTheQuestionAndTheLetterIsTheAnswer) {
  const std::vector<Sample> samples =
      parse_choices(choice_row("a").dump() + "\n" + choice_row("b").dump(), "c.jsonl", {});

  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].question, "which?\nA. a river\nB. a city\nC. none");
  EXPECT_THAT(samples[0].answers, testing::ElementsAre("B"));
  EXPECT_EQ(samples[0].scoring, Scoring::kChoice);
  EXPECT_EQ(samples[0].n_choices, 3U);
  EXPECT_TRUE(samples[0].passages.empty());
}

TEST(ParseChoices, BadLineIsNamedWithItsNumber) {
  const auto said = [](const char* name, const json& value) -> std::string {
    json bad = choice_row("b");
    bad[name] = value;
    try {
      parse_choices(choice_row("a").dump() + "\n" + bad.dump(), "c.jsonl", {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said("subject", 3), "");
  EXPECT_THAT(said("choices", {"one"}), HasSubstr("c.jsonl line 2 - \"choices\" is no list"));
  EXPECT_THAT(said("choices", std::vector<std::string>(27, "x")), HasSubstr("at most 26"));
  EXPECT_THAT(said("choices", {"one", " "}), HasSubstr("choice 2 is empty"));
  for (const json& answer : {json(3), json(-1), json("B"), json(1.0), json()})
    EXPECT_THAT(said("answer", answer), HasSubstr("\"answer\" is no whole number from 0 to 2"));
}

TEST(ParseSummaries, QueryAsksForSentencesAndTheReferenceIsTheAnswer) {
  json summary = row("a");
  summary.erase("question");
  summary.erase("answers");
  summary["query"] = "what was said?";
  summary["reference"] = "Nothing of note.";

  const Sample sample = parse_summaries(summary.dump(), "s.jsonl", {.n_passages = 2}).front();

  EXPECT_EQ(sample.question, "what was said?") << "no words of ours are searched for";
  EXPECT_EQ(request_of(sample).question, "what was said? Answer in a few sentences.");
  EXPECT_THAT(sample.answers, testing::ElementsAre("Nothing of note."));
  EXPECT_EQ(sample.scoring, Scoring::kSummary);
  EXPECT_THAT(texts(sample), testing::ElementsAre("one", "three"));
}

TEST(ReadQaFile, CompressedFileIsRefusedWithAdvice) {
  const store_testing::ScratchDir folder;
  const auto file = folder.path() / "q.jsonl.gz";
  std::ofstream(file, std::ios::binary) << "\x1f\x8b\x08";
  try {
    read_qa_file(file, {});
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr("unpack it"));
  }
}

TEST(ReadQaFile, FileThatIsNotThereIsNamed) {
  try {
    read_qa_file("/nonexistent/q.jsonl", {});
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/q.jsonl"));
  }
}

TEST(SampleDigest, ChangesWithEveryTextButNotWithTheId) {
  const Sample sample = parse_qa(row("a").dump(), "q.jsonl", {}).front();
  const std::string digest = sample_digest(sample);
  Sample renamed = sample, asked = sample, answered = sample, moved = sample;
  renamed.id = "b";
  asked.question = "when?";
  answered.answers.pop_back();
  std::swap(moved.passages[0], moved.passages[1]);
  Sample summarized = sample;
  summarized.scoring = Scoring::kSummary;

  EXPECT_EQ(digest.size(), 16U);
  EXPECT_EQ(sample_digest(renamed), digest);
  for (const Sample& other : {asked, answered, moved, summarized})
    EXPECT_NE(sample_digest(other), digest);
}

}  // namespace
}  // namespace tessera
