#include "eval/run_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "eval/registry.h"
#include "eval/report_testing.h"

namespace tessera {
namespace {

using report_testing::full_row;
using report_testing::row;
using report_testing::run_of;

size_t metric_index(std::string_view name) {
  size_t i = 0;
  while (metrics()[i].name != name) ++i;
  return i;
}

TEST(RunDiff, TakesTheFirstFromTheSecondQuestionByQuestion) {
  const RunFile first = run_of({row("a", "epic", 0.15, 0.1, 2), row("b", "epic", 0.15, 0.5, 4)});
  const RunFile second = run_of({row("a", "epic", 0.15, 0.4, 3), row("b", "epic", 0.15, 0.4, 5)});

  const RunDiff diff = diff_runs(first, second, {});

  EXPECT_EQ(diff.n_paired, 2);
  ASSERT_EQ(diff.lines.size(), 1);
  EXPECT_EQ(diff.lines[0].policy, "epic");
  EXPECT_EQ(diff.lines[0].n, 2);
  const Estimate kl = diff.lines[0].differences[metric_index("kl")];
  EXPECT_NEAR(kl.value, 0.1, 1e-12);  // (0.3 - 0.1) / 2
  EXPECT_NEAR(kl.low, -0.1, 1e-12);   // both draws are b
  EXPECT_NEAR(kl.high, 0.3, 1e-12);   // both are a
  EXPECT_NEAR(diff.lines[0].differences[metric_index("ttft_ratio")].value, 1, 1e-12);
  EXPECT_EQ(diff.lines[0].differences[metric_index("rouge_l")].n, 0);
}

TEST(RunDiff, RowsWithoutAPartnerAndChangedQuestionsAreCounted) {
  Measurement changed = row("b", "epic", 0.15, 9);
  changed.inputs.sample = "another";
  Measurement rated = row("c", "speccache", 0.15, 0.2);
  rated.inputs.scorer = "another";
  const RunFile first = run_of({row("a", "reuse", 0.15, 1), row("b", "epic", 0.15, 1),
                                row("c", "speccache", 0.15, 0.1), full_row("a")});
  const RunFile second =
      run_of({changed, rated, row("a", "reuse", 0.3, 1), full_row("a"), row("d", "epic", 0.15, 1)});

  const RunDiff diff = diff_runs(first, second, {});

  EXPECT_EQ(diff.n_paired, 2);
  EXPECT_EQ(diff.n_first_only, 1);
  EXPECT_EQ(diff.n_second_only, 2);
  EXPECT_EQ(diff.n_changed, 1);
  EXPECT_EQ(diff.n_other_scorer, 1);
  ASSERT_EQ(diff.lines.size(), 2);
  EXPECT_EQ(diff.lines[0].policy, "speccache") << "anchors are in order of their names";
  EXPECT_EQ(diff.lines[1].policy, "full");
}

TEST(RunDiff, NamesTheQuestionsThatChangedMost) {
  const RunFile first = run_of({row("a", "epic", 0.15, 0.1), row("b", "epic", 0.15, 0.9),
                                row("c", "epic", 0.15, 0.5), row("d", "epic", 0.15, 0.5)});
  Measurement other = row("b", "epic", 0.15, 0.2);
  other.answer = "another answer";
  const RunFile second = run_of({row("a", "epic", 0.15, 0.2), other, row("c", "epic", 0.15, 0.8),
                                 row("d", "epic", 0.15, 0.5)});

  const RunDiff diff = diff_runs(first, second, {.n_questions = 2});
  const RunDiff all = diff_runs(first, second, {});

  ASSERT_EQ(diff.questions.size(), 2);
  EXPECT_EQ(diff.questions[0].key.id, "b");
  EXPECT_EQ(diff.questions[0].first_answer, "answer of epic");
  EXPECT_EQ(diff.questions[0].second_answer, "another answer");
  EXPECT_EQ(diff.questions[1].key.id, "c");
  EXPECT_EQ(all.questions.size(), 3) << "d is as it was";
}

TEST(RunDiff, NamesWhatTheConfigsAndTheLastStartsDifferIn) {
  const RunFile first = run_of({full_row("a")});
  RunFile second = first;
  second.config["max_tokens"] = 64;
  second.sessions.push_back({{"model", "large"}, {"cpu", "a cpu"}, {"started", "later"}});

  const RunDiff diff = diff_runs(first, second, {});

  ASSERT_EQ(diff.config.size(), 1);
  EXPECT_EQ(diff.config[0].name, "max_tokens");
  ASSERT_EQ(diff.session.size(), 1);
  EXPECT_EQ(diff.session[0].name, "model");
}

TEST(RunDiff, OfARunWithItselfIsZero) {
  const RunFile run = run_of({row("a", "epic", 0.15, 0.1), full_row("a")});

  const RunDiff diff = diff_runs(run, run, {});

  EXPECT_TRUE(diff.questions.empty() && diff.config.empty() && diff.session.empty());
  for (const DiffLine& line : diff.lines) {
    for (const Estimate& e : line.differences) EXPECT_EQ(e.low == 0 && e.high == 0, true);
  }
  EXPECT_EQ(diff_json(diff)["rows"]["paired"], 2);
  EXPECT_EQ(diff_json(diff)["lines"][0]["differences"]["kl"]["value"], 0);
}

}  // namespace
}  // namespace tessera
