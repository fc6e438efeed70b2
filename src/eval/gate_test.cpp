#include "eval/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "eval/sample_testing.h"

namespace tessera {
namespace {

using testing::HasSubstr;

// Eight sentences of about 150 bytes, the third of which is `fact`.
GateDocument document(const std::string& name, const std::string& fact) {
  GateDocument out = {name, "Title of " + name, {}};
  for (int i = 0; i < 8; ++i) {
    const std::string filler(120, static_cast<char>('a' + i));
    out.text += i == 2 ? fact + " " : name + " says " + filler + ". ";
  }
  return out;
}

std::vector<Sample> samples_of(size_t n) {
  std::vector<GateDocument> documents;
  std::vector<GateQuestion> questions;
  for (size_t i = 0; i < n; ++i) {
    const std::string name = "doc" + std::to_string(i), answer = "answer" + std::to_string(i);
    documents.push_back(document(name, "The fact is " + answer + "."));
    questions.push_back({"q" + std::to_string(i), "What is it?", {answer}, name});
  }
  return gate_samples(documents, questions);
}

TEST(GateSamples, EachQuestionHasItsAnswerOnceAmongPiecesOfFourDocuments) {
  for (const Sample& sample : samples_of(6)) {
    ASSERT_EQ(sample.passages.size(), 5U);
    std::set<std::string> titles;
    size_t n_answers = 0;
    for (const PassageText& p : sample.passages) {
      titles.insert(p.title);
      EXPECT_LE(p.text.size(), 560U);
      n_answers += p.text.find(sample.answers.front()) != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(n_answers, 1U);
    EXPECT_EQ(titles.size(), 4U);
  }
}

TEST(GateSamples, PassagesComeAgainAtOtherPlaces) {
  std::map<std::string, std::set<size_t>> places;  // of each text, in the prompts that hold it
  for (const Sample& sample : samples_of(6)) {
    for (size_t i = 0; i < sample.passages.size(); ++i) places[sample.passages[i].text].insert(i);
  }

  size_t n_moved = 0;
  for (const auto& [text, at] : places) n_moved += at.size() > 1 ? 1 : 0;
  EXPECT_GE(n_moved, 4U);
}

TEST(GateSamples, QuestionWithoutItsDocumentOrAnswerIsRefused) {
  const GateDocument one = document("one", "Nothing.");
  const GateQuestion lost = {"q1", "What?", {"answer"}, "two"},
                     unanswered = {"q2", "?", {"x9"}, "one"};

  EXPECT_THAT(sample_testing::refusal_of([&] { gate_samples({&one, 1}, {&lost, 1}); }),
              HasSubstr("no document 'two'"));
  EXPECT_THAT(sample_testing::refusal_of([&] { gate_samples({&one, 1}, {&unanswered, 1}); }),
              HasSubstr("'x9' stands in no piece"));
}

TEST(GateChecks, WhatIsNoNumberPassesNothing) {
  const GateCheck checks[] = {{"low", 1, 1, Better::kLower}, {"high", 1, 1, Better::kHigher}};
  EXPECT_TRUE(all_passed(checks));

  for (GateCheck check : checks) {
    check.value = NAN;
    EXPECT_FALSE(check.passed()) << check.name;
  }
}

TEST(GateFidelity, IsTheMeanOverTheQuestionsOfOneRatio) {
  RunLog log;
  const auto add = [&](const std::string& id, double ratio, double kl, double top1) {
    Measurement row;
    row.key = {"gate", id, "leadin", "epic", ratio};
    row.kl = kl;
    row.top1 = top1;
    row.n_positions = 1;
    row.ttft_ms = row.full_ttft_ms = 1;
    row.account.fresh = 1;
    log.add(row);
  };
  add("one", 0.15, 0.2, 0.5);
  add("two", 0.15, 0.4, 1);
  add("one", 0.3, 9, 0);

  const Fidelity found = fidelity_of(log, 0.15);

  EXPECT_DOUBLE_EQ(found.kl.value, 0.3);
  EXPECT_DOUBLE_EQ(found.top1.value, 0.75);
  EXPECT_EQ(found.kl.n, 2U);
  EXPECT_GE(found.kl.low, 0.2);
  EXPECT_LE(found.kl.high, 0.4);
}

}  // namespace
}  // namespace tessera
