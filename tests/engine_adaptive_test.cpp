// Adaptive context: rounds leave what all passages at once would, stop where they should, and count
// what they repeat.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

constexpr double kNever = 2;    // no confidence is higher
constexpr double kAtOnce = -1;  // every one is

Request adaptive(std::string_view policy, std::string_view order, double threshold,
                 double ratio = 0.15) {
  Request r = request_for(policy, passages(order), ratio);
  r.adaptive.emplace();
  r.adaptive->threshold = threshold;
  return r;
}

class AdaptiveTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& policy() const { return std::get<0>(GetParam()); }
  void index(std::string_view order) { rig_.index(passages(order), AnchorKind::kLeadin); }
  EngineRig rig_{std::get<1>(GetParam())};
};

TEST_P(AdaptiveTest, EverythingRecomputedRoundByRoundIsFullPrefill) {
  if (policy() == "reuse") return;
  index("ABCD");
  for (const int32_t step : {1, 2, 3, 4}) {
    Request r = adaptive(policy(), "ABCD", kNever, 1);
    r.policy_options.soft_ratio = 1;
    r.adaptive->step = step;
    const Prefilled got = rig_.prefill(r);
    EXPECT_EQ(got.logits.size(), static_cast<size_t>(rig_.engine().decoder().config().n_vocab));
    EXPECT_LE(max_abs_difference(got.logits, rig_.full_logits(r)), kF16Bound) << step;
    EXPECT_EQ(account_of(got.plan).total(), total_tokens(got.prompt));
  }
}

TEST_P(AdaptiveTest, AccountOfTheLastRoundIsThatOfThePromptThatWasSeen) {
  index("ABC");
  const Prefilled got = rig_.prefill(adaptive(policy(), "ABC", kNever));
  ASSERT_TRUE(got.adaptive.has_value());
  EXPECT_EQ(got.adaptive->n_seen, 3);
  EXPECT_FALSE(got.adaptive->is_confident);
  EXPECT_EQ(got.adaptive->rounds.size(), 3U);
  const Account a = account_of(got.plan);
  EXPECT_EQ(a.total(), total_tokens(got.prompt));
  const int32_t n_query = got.prompt.segments.back().range.size();
  int32_t n_rows = 0;
  for (const Round& round : got.adaptive->rounds) n_rows += round.rows;
  if (policy() == "query_aware") {  // whose probe runs through the question each time
    EXPECT_GT(got.adaptive->repeated_rows, 2 * n_query);
  } else {
    EXPECT_EQ(got.adaptive->repeated_rows, 2 * n_query);
  }
  if (policy() != "oracle") {  // which computes all anew in each round
    EXPECT_EQ(n_rows, a.rows() + 2 * n_query);
  }
}

TEST_P(AdaptiveTest, SureAtOnceIsThePromptOfTheFirstPassage) {
  index("ABC");
  const Request r = adaptive(policy(), "ABC", kAtOnce);
  const Prefilled got = rig_.prefill(r);
  EXPECT_TRUE(got.adaptive->is_confident);
  EXPECT_EQ(got.adaptive->n_seen, 1);
  EXPECT_EQ(got.adaptive->n_given, 3);
  EXPECT_EQ(got.adaptive->repeated_rows, 0);
  const Prefilled alone = rig_.prefill(request_for(policy(), passages("A")));
  EXPECT_EQ(got.prompt.ids, alone.prompt.ids);
  EXPECT_EQ(account_of(got.plan), account_of(alone.plan));
  if (policy() != "speccache") {
    EXPECT_LE(max_abs_difference(got.logits, alone.logits), 1e-3F);
  }
}

TEST_P(AdaptiveTest, WholeRequestAnswersAndIsTheSameAgain) {
  const Request r = adaptive(policy(), "ABC", kNever);
  const Answer cold = rig_.engine().answer(r);
  ASSERT_TRUE(cold.adaptive.has_value());
  EXPECT_EQ(cold.account.total(), cold.account.fresh);
  const Answer warm = rig_.engine().answer(r);
  EXPECT_EQ(warm.account.total(), cold.account.total());
  if (policy() != "full") {
    EXPECT_LT(warm.account.fresh, cold.account.fresh);
  }
  EXPECT_EQ(rig_.engine().answer(r).text, rig_.engine().answer(r).text);
}

TEST_P(AdaptiveTest, NoPassagesOrOneAreOneRound) {
  for (const char* order : {"", "A"}) {
    const Prefilled got = rig_.prefill(adaptive(policy(), order, kNever));
    EXPECT_EQ(got.adaptive->rounds.size(), 1U);
    EXPECT_EQ(got.adaptive->repeated_rows, 0);
    EXPECT_FALSE(got.adaptive->is_confident);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdaptiveTest,
                         testing::Combine(testing::ValuesIn(names_of_policies()),
                                          testing::Values("llama", "gemma3")),
                         [](const auto& i) {
                           return std::get<0>(i.param) + "_" + std::get<1>(i.param);
                         });

class AdaptiveContextTest : public testing::Test {
 protected:
  EngineRig rig_{"qwen2"};
};

TEST_F(AdaptiveContextTest, RoundsOfAPrefixRequestLeaveTheWholeChain) {
  rig_.engine().answer(adaptive("prefix", "ABC", kNever));
  const Request plain = request_for("prefix", passages("ABC"));
  const Prefilled got = rig_.prefill(plain);
  EXPECT_EQ(matches_of(got), "xxx");
  EXPECT_LE(max_abs_difference(got.logits, rig_.full_logits(plain)), kF16Bound);
}

TEST_F(AdaptiveContextTest, RoundsOfAnAdaCacheRequestLeaveTheirVariants) {
  rig_.index(passages("ABC"), AnchorKind::kLeadin);
  rig_.engine().answer(adaptive("adacache", "ABC", kNever));
  EXPECT_EQ(matches_of(rig_.prefill(request_for("adacache", passages("ABC")))), "sss");
}

TEST_F(AdaptiveContextTest, OnlyWhatWasSeenIsStored) {
  rig_.engine().answer(adaptive("prefix", "ABC", kAtOnce));
  EXPECT_EQ(matches_of(rig_.prefill(request_for("prefix", passages("ABC")))), "x--");
}

TEST_F(AdaptiveContextTest, StopsAtTheFirstRoundThatIsSureEnough) {
  const Prefilled all = rig_.prefill(adaptive("full", "ABCDEF", kNever));
  std::vector<double> confidence;
  for (const Round& r : all.adaptive->rounds) confidence.push_back(r.confidence);
  for (const double threshold : confidence) {
    const Prefilled got = rig_.prefill(adaptive("full", "ABCDEF", threshold - 1e-9));
    size_t first = 0;
    while (confidence[first] <= threshold - 1e-9) ++first;
    EXPECT_EQ(got.adaptive->n_seen, static_cast<int32_t>(first) + 1);
    EXPECT_NEAR(got.adaptive->rounds.back().confidence, confidence[first], 1e-3);
  }
}

TEST_F(AdaptiveContextTest, BreakEvenIsWhereTheRowsAreEqual) {
  const Prefilled got = rig_.prefill(adaptive("full", "ABCD", kNever));
  const Segment& query = got.prompt.segments.back();
  double of_passages = 0;
  for (const Segment& s : got.prompt.segments)
    of_passages += s.kind == SegmentKind::kChunk ? s.range.size() : 0;
  const double each = of_passages / 4, n_query = query.range.size();
  const double rounds = got.adaptive->break_even_rounds;
  EXPECT_NEAR(rounds * (each + n_query), 4 * each + n_query, 1e-6);
}

TEST_F(AdaptiveContextTest, ConfidenceIsReadFromTheLastLayersOfThePrompt) {
  const Request r = adaptive("full", "AB", kNever);
  const Prefilled got = rig_.prefill(r);
  Engine& engine = rig_.engine();
  const ModelConfig& config = engine.decoder().config();
  const Prompt prompt = engine.prompt_of(r);
  StepOptions options;
  options.logit_rows = {static_cast<int32_t>(prompt.ids.size()) - 1};
  for (int32_t layer = std::max(0, config.n_layers - certainty_layers({})); layer < config.n_layers;
       ++layer)
    options.logit_layers.push_back(layer);
  engine.kv().clear();
  const std::vector<int32_t> at = positions_from(0, prompt.ids.size());
  const Certainty expected = certainty_of(
      engine.decoder().prefill({&engine.kv(), prompt.ids, at}, options, {}).logits, config.n_vocab);
  EXPECT_NEAR(got.adaptive->rounds.back().certainty.kl.value(), expected.kl.value(), 1e-2);
  EXPECT_NEAR(got.adaptive->rounds.back().certainty.entropy, expected.entropy, 1e-2);
}

TEST_F(AdaptiveContextTest, WithoutWeightTheOtherLayersAreNotRead) {
  Request r = adaptive("full", "AB", kNever);
  const std::vector<Round> with = rig_.prefill(r).adaptive->rounds;
  r.adaptive->confidence.lambda = 0;
  const std::vector<Round> without = rig_.prefill(r).adaptive->rounds;
  ASSERT_EQ(without.size(), with.size());
  for (size_t i = 0; i < with.size(); ++i) {
    EXPECT_TRUE(with[i].certainty.kl);
    EXPECT_FALSE(without[i].certainty.kl);
    EXPECT_NEAR(without[i].certainty.entropy, with[i].certainty.entropy, 1e-6);
  }
}

TEST_F(AdaptiveContextTest, OptionsThatMakeNoSenseAreRefusedAndTheEngineStays) {
  const auto refused = [&](auto edit) {
    Request r = adaptive("full", "AB", 0.5);
    edit(*r.adaptive);
    EXPECT_THROW(rig_.prefill(r), Error);
  };
  refused([](AdaptiveContext& a) { a.step = 0; });
  refused([](AdaptiveContext& a) { a.step = -1; });
  refused([](AdaptiveContext& a) { a.confidence.lambda = 1.5; });
  refused([](AdaptiveContext& a) { a.confidence.lambda = std::nan(""); });
  refused([](AdaptiveContext& a) { a.confidence.kl_scale = 0; });
  refused(
      [](AdaptiveContext& a) { a.confidence.kl_scale = std::numeric_limits<double>::infinity(); });
  refused([](AdaptiveContext& a) { a.threshold = std::nan(""); });
  EXPECT_FALSE(rig_.prefill(adaptive("full", "AB", 0.5)).logits.empty());
}

TEST_F(AdaptiveContextTest, CancelledLeavesAUsableEngine) {
  std::stop_source source;
  source.request_stop();
  const Request r = adaptive("full", "ABC", kNever);
  EXPECT_THROW(rig_.engine().prefill(r, source.get_token()), Error);
  EXPECT_EQ(rig_.engine().answer(r).text, rig_.engine().answer(r).text);
}

}  // namespace
}  // namespace tessera
