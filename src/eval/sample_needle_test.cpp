#include "eval/sample_needle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>

#include "eval/sample_testing.h"

namespace tessera {
namespace {

using testing::HasSubstr;

// Sentences that all differ, ten a paragraph.
std::string novel(size_t n_bytes) {
  std::string out;
  for (size_t i = 0; out.size() < n_bytes; ++i)
    out +=
        fmt::format("The ship of the year {} went north again.{}", i, i % 10 == 9 ? "\n\n" : " ");
  return out;
}

std::string joined(const Sample& sample) {
  std::string out;
  for (const PassageText& p : sample.passages) out += p.text + "\n";
  return out;
}

std::map<std::string, Sample> by_id(const std::vector<Sample>& samples) {
  std::map<std::string, Sample> out;
  for (const Sample& sample : samples) out[sample.id] = sample;
  return out;
}

TEST(Needles, EveryLengthAndDepthIsAskedFiveTimesOfWhichTheFirstComeFirst) {
  const std::vector<Sample> all = make_needles(novel(40'000), "novel.txt", {});
  const std::vector<Sample> first = make_needles(novel(40'000), "novel.txt", {.n_samples = 15});

  EXPECT_EQ(all.size(), 3U * 5 * 5);
  EXPECT_EQ(by_id(all).size(), all.size());
  std::set<std::string> kinds;
  for (const Sample& sample : first) {
    EXPECT_THAT(sample.id, testing::EndsWith("-1"));
    kinds.insert(sample.id);
  }
  EXPECT_EQ(kinds.size(), 15U);
  EXPECT_TRUE(kinds.contains("needle-d25-l2000-1"));
}

TEST(Needles, NumberStandsOnceAndAsDeepAsTheIdSays) {
  const std::map<std::string, Sample> all = by_id(make_needles(novel(40'000), "novel.txt", {}));
  for (const size_t length : {1000, 2000, 4000}) {
    for (const size_t depth : {0, 25, 50, 75, 100}) {
      const Sample& sample = all.at(fmt::format("needle-d{}-l{}-3", depth, length));
      const std::string text = joined(sample);
      const std::string needle = "harbour gate is " + sample.answers.front() + ".";
      const size_t at = text.find(needle);
      ASSERT_NE(at, std::string::npos) << sample.id;
      EXPECT_EQ(text.find(needle, at + 1), std::string::npos) << sample.id;
      const double share = static_cast<double>(at) / static_cast<double>(text.size());
      EXPECT_NEAR(share, static_cast<double>(depth) / 100, 0.1) << sample.id;
      EXPECT_NEAR(static_cast<double>(text.size()), 4.0 * static_cast<double>(length), 500)
          << sample.id;
      EXPECT_EQ(sample.answers.front().size(), 6U);
      EXPECT_EQ(sample.scoring, Scoring::kShortAnswer);
    }
  }
}

TEST(Needles, PassagesAreOfAtMost512TokensWorthBesideTheNeedle) {
  for (const Sample& sample : make_needles(novel(40'000), "novel.txt", {})) {
    for (const PassageText& p : sample.passages) {
      EXPECT_LE(p.text.size(), 4U * 512 + 60) << sample.id;
      EXPECT_FALSE(p.text.empty());
      EXPECT_THAT(p.text, testing::AllOf(testing::StartsWith("The "), testing::EndsWith(".")));
    }
  }
}

// So that a store holds the passages of a haystack once, whatever the depth.
TEST(Needles, OnlyThePassageOfTheNeedleDiffersBetweenDepths) {
  const std::map<std::string, Sample> all = by_id(make_needles(novel(40'000), "novel.txt", {}));
  const Sample& head = all.at("needle-d0-l4000-2");
  const Sample& tail = all.at("needle-d100-l4000-2");
  ASSERT_EQ(head.passages.size(), tail.passages.size());
  for (size_t i = 1; i + 1 < head.passages.size(); ++i)
    EXPECT_EQ(head.passages[i].text, tail.passages[i].text);
  EXPECT_THAT(head.passages.front().text, HasSubstr(head.answers.front()));
  EXPECT_THAT(tail.passages.back().text, HasSubstr(tail.answers.front()));
}

TEST(Needles, LimitOfPassagesKeepsTheNeedle) {
  for (const Sample& sample : make_needles(novel(40'000), "novel.txt", {.n_passages = 1})) {
    ASSERT_EQ(sample.passages.size(), 1U);
    EXPECT_THAT(sample.passages.front().text, HasSubstr(sample.answers.front()));
  }
}

TEST(Needles, SameTextGivesTheSameQuestions) {
  const std::vector<Sample> one = make_needles(novel(40'000), "novel.txt", {});
  const std::vector<Sample> two = make_needles(novel(40'000), "novel.txt", {});
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(sample_digest(one[i]), sample_digest(two[i]));
}

TEST(Needles, TextThatCannotServeIsRefused) {
  const auto said = [](const std::string& text) {
    return sample_testing::refusal_of([&text] { make_needles(text, "novel.txt", {}); });
  };
  EXPECT_THAT(said("too short"), HasSubstr("novel.txt - has 9 bytes, too few"));
  EXPECT_THAT(said(novel(40'000) + "\xC3\x28"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(said(novel(40'000) + std::string(1, '\0')), HasSubstr("zero byte"));
  EXPECT_THAT(said(std::string(40'000, ' ')), HasSubstr("white space alone"));
}

}  // namespace
}  // namespace tessera
