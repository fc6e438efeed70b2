#include "eval/sample_longbench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "eval/sample_testing.h"

namespace tessera {
namespace {

using nlohmann::json;
using sample_testing::refusal_of;
using sample_testing::texts;
using testing::ElementsAre;
using testing::HasSubstr;

json row(const std::string& id, const std::string& dataset = "musique") {
  return {{"input", "where?"},
          {"context", "Passage 1:\nRhine\nA river.\n\nPassage 2:\nUlm\nA city.\n"},
          {"answers", {"here", "there"}},
          {"length", 12},
          {"dataset", dataset},
          {"language", "en"},
          {"all_classes", nullptr},
          {"_id", id}};
}

EvalSet parse(const json& line, const ReadLimits& limits = {}) {
  return parse_longbench(line.dump(), "long.jsonl", limits);
}

std::string error_of(const std::string& text) {
  return refusal_of([&text] { parse_longbench(text, "long.jsonl", {}); });
}

TEST(LongBench, ReadsQuestionsOverNumberedPassages) {
  const EvalSet set =
      parse_longbench(row("a").dump() + "\n" + row("b").dump() + "\n", "long.jsonl", {});

  EXPECT_EQ(set.task, "musique");
  ASSERT_EQ(set.samples.size(), 2U);
  const Sample& sample = set.samples.front();
  EXPECT_EQ(sample.id, "a");
  EXPECT_EQ(sample.question, "where?");
  EXPECT_THAT(sample.answers, ElementsAre("here", "there"));
  EXPECT_THAT(texts(sample), ElementsAre("Rhine\nA river.", "Ulm\nA city."));
  EXPECT_EQ(sample.scoring, Scoring::kShortAnswer);
}

TEST(LongBench, OnlyAWholeLineOpensAPassage) {
  json line = row("a");
  line["context"] =
      "Before.\nPassage 1:\r\nsee Passage 2:\nPassage 3: no\nPassage x:\nPassage 4:\n";
  EXPECT_THAT(texts(parse(line).samples.front()),
              ElementsAre("Before.", "see Passage 2:\nPassage 3: no\nPassage x:"));
}

TEST(LongBench, OtherContextsAreCutAt512TokensWorth) {
  json line = row("a", "qasper");
  std::string context;
  for (int i = 0; i < 300; ++i) context += "This is sentence " + std::to_string(i) + ". ";
  line["context"] = context;

  const Sample sample = parse(line).samples.front();

  EXPECT_GE(sample.passages.size(), 3U);
  std::string all;
  for (const PassageText& p : sample.passages) {
    EXPECT_LE(p.text.size(), 2048U);
    all += p.text + " ";
  }
  EXPECT_EQ(all, context);
}

TEST(LongBench, SummariesAreScoredSoAndAskedForInOurWordsWhereTheInputIsEmpty) {
  json line = row("a", "multi_news");
  line["input"] = "";
  const Sample news = parse(line).samples.front();
  const Sample talk = parse(row("a", "samsum")).samples.front();

  EXPECT_EQ(news.scoring, Scoring::kSummary);
  EXPECT_EQ(news.question, "What do these texts report?");
  EXPECT_EQ(talk.scoring, Scoring::kSummary);
  EXPECT_EQ(talk.question, "where?");
}

TEST(LongBench, LimitOfPassagesTakesTheFirst) {
  EXPECT_THAT(texts(parse(row("a"), {.n_passages = 1}).samples.front()),
              ElementsAre("Rhine\nA river."));
}

TEST(LongBench, BadLineIsNamedWithItsNumber) {
  const auto with = [](const char* name, const json& value) {
    json bad = row("b");
    bad[name] = value;
    return row("a").dump() + "\n" + bad.dump() + "\n";
  };
  const struct {
    std::string text, words;
  } cases[] = {
      {with("dataset", "trec"), "unknown \"dataset\" 'trec'"},
      {with("dataset", "hotpotqa"), "is of 'hotpotqa', earlier lines of 'musique'"},
      {with("_id", 3), "\"_id\" is missing or no string"},
      {with("_id", "a"), "the id 'a' of an earlier line"},
      {with("input", ""), "\"input\" is empty"},
      {with("context", " "), "\"context\" is empty"},
      {with("context", std::string("a\0b", 3)), "holds a zero byte"},
      {with("answers", json::array()), "\"answers\" is no list or holds none"},
  };
  for (const auto& bad : cases) {
    EXPECT_THAT(error_of(bad.text), HasSubstr("long.jsonl line 2 - ")) << bad.text;
    EXPECT_THAT(error_of(bad.text), HasSubstr(bad.words)) << bad.text;
  }
}

}  // namespace
}  // namespace tessera
