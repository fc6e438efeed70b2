// The evaluation on a tiny random model: what is measured agrees with the oracles, and neither a
// second run nor a broken one changes a number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "eval/metrics.h"
#include "eval/runner.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class EvalRun : public testing::Test {
 protected:
  EvalRun() {
    plan_.sets = {{"tiny", {sample("one", "ABC"), sample("two", "CDA")}}};
    plan_.policies = {"full", "reuse", "epic", "random"};
    plan_.ratios = {0.15};
    plan_.anchors = {AnchorKind::kLeadin, AnchorKind::kPreamble};
    plan_.max_tokens = 6;
    plan_.reference_dir = folder_.path() / "full";
    plan_.machine = "this one";
  }

  static Sample sample(const std::string& id, std::string_view order) {
    return {id, "which river is in the city", {"the river", "a city"}, passages(order)};
  }
  static RunHeader header() { return {{{"model_digest", "tiny"}}, {{"commit", "0"}}}; }

  RunLog run() {
    RunLog log;
    EXPECT_TRUE(run_eval(rig_.engine(), &rig_.scorer(), plan_, log));
    return log;
  }

  RowKey key(const std::string& policy, double ratio = 0.15) const {
    return {"tiny", "one", "leadin", policy, ratio};
  }

  // All but the times, which no two runs share.
  static std::map<RowKey, std::string> untimed(const RunLog& log) {
    std::map<RowKey, std::string> out;
    for (const auto& [row, measurement] : log.rows()) {
      Measurement copy = measurement;
      copy.ttft_ms = copy.full_ttft_ms = 0;
      out[row] = record_of(copy).dump();
    }
    return out;
  }

  fs::path only_reference() const {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(plan_.reference_dir)) found = entry.path();
    return found;
  }

  EngineRig rig_{"llama"};
  store_testing::ScratchDir folder_;
  EvalPlan plan_;
};

TEST_F(EvalRun, MeasuresEveryPlannedRowOnce) {
  size_t n_seen = 0;
  EvalHooks hooks;
  hooks.progress = [&](size_t n_done, const RowKey&) { EXPECT_EQ(n_done, ++n_seen); };
  RunLog log;

  EXPECT_TRUE(run_eval(rig_.engine(), &rig_.scorer(), plan_, log, hooks));

  std::set<RowKey> measured;
  for (const auto& [row, measurement] : log.rows()) measured.insert(row);
  EXPECT_EQ(measured, planned_rows(plan_));
  EXPECT_EQ(measured.size(), 2U * (1 + 2 * 3));  // samples, full and anchors by policies
  EXPECT_EQ(n_seen, measured.size());
}

TEST_F(EvalRun, FullIsNoDistanceFromItselfAndPoliciesAreTheirs) {
  plan_.policies = {"reuse", "epic", "prefix"};
  plan_.ratios = {0.15, 1.0};

  const RunLog log = run();

  const Measurement& full = log.rows().at(full_key("tiny", "one"));
  EXPECT_EQ(full.kl, 0);
  EXPECT_EQ(full.top1, 1);
  EXPECT_GT(full.n_positions, 0);
  EXPECT_GT(full.gold_nll, 0);
  EXPECT_EQ(full.account.fresh, full.account.total());
  EXPECT_EQ(full.ttft_ms, full.full_ttft_ms);

  const Measurement& reuse = log.rows().at(key("reuse"));
  EXPECT_GT(reuse.kl, 1e-6);
  EXPECT_GT(reuse.account.independent, 0);
  EXPECT_EQ(reuse.account.recomputed, 0);
  EXPECT_NE(reuse.gold_nll, full.gold_nll);
  for (const Measurement& exact : {log.rows().at(key("epic", 1.0)), log.rows().at(key("prefix"))}) {
    EXPECT_LT(exact.kl, 1e-4) << exact.key.policy;
    EXPECT_NEAR(exact.gold_nll, full.gold_nll, 2 * kF16Bound) << exact.key.policy;
  }
  for (const auto& [row, measurement] : log.rows()) {
    const Measurement& whole = log.rows().at(full_key("tiny", row.id));
    EXPECT_EQ(measurement.account.total(), whole.account.total()) << row.policy;
    EXPECT_GT(measurement.ttft_ms, 0);
    EXPECT_GT(measurement.full_ttft_ms, 0);
  }
}

TEST_F(EvalRun, RowsKnowWhatFullPrefillSaid) {
  const RunLog log = run();
  for (const auto& [row, measurement] : log.rows()) {
    EXPECT_EQ(measurement.full_gold_nll == measurement.gold_nll, row.policy == kFullPolicy)
        << row.policy;
    EXPECT_EQ(measurement.full_f1, log.rows().at(full_key(row.task, row.id)).f1) << row.policy;
    EXPECT_FALSE(measurement.rouge_l || measurement.accuracy) << row.policy;
  }
}

TEST_F(EvalRun, SummariesAreScoredByTheirWords) {
  for (Sample& asked : plan_.sets.front().samples) asked.scoring = Scoring::kSummary;

  const RunLog log = run();
  for (const auto& [row, measurement] : log.rows()) {
    const std::vector<std::string> references = {"the river", "a city"};
    EXPECT_EQ(measurement.rouge_l, rouge_l(measurement.answer, references)) << row.policy;
    EXPECT_FALSE(measurement.accuracy) << row.policy;
  }
}

// Whatever the model holds for likeliest, it is one of the options: over all of them as the right
// one, each row is right once.
TEST_F(EvalRun, ChoiceIsTheLikeliestOfTheLetters) {
  plan_.sets.front().samples.pop_back();
  Sample& asked = plan_.sets.front().samples.front();
  asked.question = "which\nA. river\nB. city\nC. people";
  asked.scoring = Scoring::kChoice;
  asked.n_choices = 3;
  std::map<RowKey, double> n_right;
  for (size_t right = 0; right < asked.n_choices; ++right) {
    asked.answers = {choice_letter(right)};
    const RunLog log = run();
    for (const auto& [row, measurement] : log.rows()) {
      n_right[row] += measurement.accuracy.value_or(-1);
      EXPECT_FALSE(measurement.rouge_l) << row.policy;
    }
  }
  EXPECT_EQ(n_right.size(), planned_rows(plan_).size());
  for (const auto& [row, n] : n_right) EXPECT_EQ(n, 1) << row.policy;
}

// The time of full prefill is the proof: no two measurements give the same one.
TEST_F(EvalRun, SecondRunReadsTheReferenceAndGivesTheSameRows) {
  const RunLog first = run();
  rig_.restart();

  const RunLog second = run();

  EXPECT_EQ(untimed(second), untimed(first));
  EXPECT_EQ(second.rows().at(full_key("tiny", "one")).ttft_ms,
            first.rows().at(full_key("tiny", "one")).ttft_ms);
}

TEST_F(EvalRun, DamagedReferenceIsComputedAgain) {
  plan_.sets.front().samples.pop_back();
  const RunLog first = run();
  const fs::path file = only_reference();
  fs::resize_file(file, fs::file_size(file) - 1);

  const RunLog second = run();

  EXPECT_EQ(untimed(second), untimed(first));
  EXPECT_NE(second.rows().at(full_key("tiny", "one")).ttft_ms,
            first.rows().at(full_key("tiny", "one")).ttft_ms);
  EXPECT_EQ(only_reference(), file);
}

TEST_F(EvalRun, ReferenceOfOtherConditionsIsNotTaken) {
  plan_.sets.front().samples.pop_back();
  const auto n_kept = [this] {
    const fs::directory_iterator files(plan_.reference_dir);
    return std::distance(begin(files), end(files));
  };
  run();
  EXPECT_EQ(n_kept(), 1);

  plan_.machine = "another one";
  run();
  EXPECT_EQ(n_kept(), 2);
  plan_.max_tokens = 3;
  run();
  EXPECT_EQ(n_kept(), 3);
  plan_.sets.front().samples.front().answers = {"people"};
  run();
  EXPECT_EQ(n_kept(), 4);
  plan_.seed = 5;
  plan_.policies = {"reuse"};
  run();
  EXPECT_EQ(n_kept(), 4) << "full prefill does not know of these";
}

// Wherever it stops, what is finished is kept, and the rest gives the rows that a run in one piece
// gives.
TEST_F(EvalRun, StoppedRunGoesOnWhereItStopped) {
  const std::map<RowKey, std::string> whole = untimed(run());
  const fs::path file = folder_.path() / "run.jsonl";
  for (const size_t n : {1, 4, 9}) {
    fs::remove(file);
    std::stop_source stop;
    EvalHooks hooks;
    hooks.stop = stop.get_token();
    hooks.progress = [&](size_t n_done, const RowKey&) {
      if (n_done == n) stop.request_stop();
    };
    std::map<RowKey, Measurement> before;
    {
      RunLog log(file, header());
      EXPECT_FALSE(run_eval(rig_.engine(), &rig_.scorer(), plan_, log, hooks));
      EXPECT_EQ(log.rows().size(), n);
      before = log.rows();
    }
    std::ofstream(file, std::ios::app) << R"({"kind":"row","task":"tiny","id":"o)";

    RunLog log(file, header());
    EXPECT_TRUE(run_eval(rig_.engine(), &rig_.scorer(), plan_, log));

    EXPECT_EQ(untimed(log), whole) << "stopped after " << n;
    for (const auto& [row, measurement] : before)
      EXPECT_EQ(log.rows().at(row).ttft_ms, measurement.ttft_ms) << "it was measured again";
  }
}

TEST_F(EvalRun, LaterRunAddsPoliciesToTheSameFile) {
  const fs::path file = folder_.path() / "run.jsonl";
  plan_.policies = {"reuse"};
  {
    RunLog log(file, header());
    EXPECT_TRUE(run_eval(rig_.engine(), &rig_.scorer(), plan_, log));
  }
  plan_.policies = {"reuse", "epic"};

  RunLog log(file, header());
  EXPECT_TRUE(run_eval(rig_.engine(), &rig_.scorer(), plan_, log));

  EXPECT_EQ(log.rows().size(), planned_rows(plan_).size());
}

// A policy must not be measured over passages that it did not find.
TEST_F(EvalRun, DamagedChunksAreMadeAgainBeforeTheyCount) {
  const std::map<RowKey, std::string> whole = untimed(run());
  for (const fs::path& blob : rig_.blobs()) {
    std::fstream file(blob, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-8, std::ios::end);
    file.write("\x55\x2A\x55\x2A\x55\x2A\x55\x2A", 8);
  }
  rig_.restart();

  EXPECT_EQ(untimed(run()), whole);
}

TEST_F(EvalRun, StoreThatKeepsNothingIsAnError) {
  rig_.restart_without_ram();
  fs::remove_all(rig_.folder());
  std::ofstream(rig_.folder()) << "a file in the folder's place";
  RunLog log;
  try {
    run_eval(rig_.engine(), &rig_.scorer(), plan_, log);
    FAIL() << "policies were measured without chunks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr("'one'"));
  }
  EXPECT_EQ(log.rows().size(), 1U) << "full prefill needs no chunk";
}

TEST_F(EvalRun, SeedDecidesWhatRandomDraws) {
  plan_.policies = {"random"};
  plan_.ratios = {0.5};
  const auto kl = [this](uint64_t seed) {
    plan_.seed = seed;
    return run().rows().at(key("random", 0.5)).kl;
  };
  const double one = kl(1);
  EXPECT_EQ(kl(1), one);
  EXPECT_NE(kl(2), one);
}

TEST_F(EvalRun, OneQuestionThatIsTooLongIsNamedBeforeAnyIsMeasured) {
  std::vector<Sample>& samples = plan_.sets.front().samples;
  samples.back().passages = passages("CDABBA");
  Request fits;
  fits.passages = samples.front().passages;
  fits.question = samples.front().question;
  EngineOptions small = tiny_options();
  small.n_ctx = total_tokens(rig_.engine().prompt_of(fits)) + 8;
  rig_.reopen(tiny_model("llama"), small);
  RunLog log;
  try {
    run_eval(rig_.engine(), &rig_.scorer(), plan_, log);
    FAIL() << "it was run";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    for (const std::string& words : {std::string("'two' of 'tiny'"), std::to_string(small.n_ctx),
                                     std::string("--passages"), std::string("--ctx")})
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
  EXPECT_TRUE(log.rows().empty());
}

// What indexing would have made is in no row: not even the first policy computes a score.
TEST_F(EvalRun, StoredScoresAreMadeBeforeTheyCount) {
  plan_.policies = {"speccache", "reuse"};

  const RunLog log = run();

  const Measurement& scored = log.rows().at(key("speccache"));
  EXPECT_EQ(scored.scorer_rows, 0);
  EXPECT_GT(scored.account.recomputed, 0);
  EXPECT_EQ(scored.inputs.scorer.size(), 16U);
  EXPECT_EQ(log.rows().at(key("reuse")).inputs.scorer, "");
  EXPECT_EQ(log.rows().at(full_key("tiny", "one")).inputs.scorer, "");
}

TEST_F(EvalRun, ScorerThatKeepsKvHasThatOfThePassages) {
  plan_.policies = {"query_aware"};
  plan_.policy_options.scorer_attention = true;
  Scorer& scorer = rig_.scorer_with_kv();
  RunLog log;

  EXPECT_TRUE(run_eval(rig_.engine(), &scorer, plan_, log));

  for (const EvalSet& set : plan_.sets) {
    for (const Sample& asked : set.samples) {
      for (const PassageText& passage : asked.passages) {
        EXPECT_EQ(scorer.build(passage, Evidence::kScorerAttention, {}, {}),
                  Scorer::Outcome::kPresent);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
