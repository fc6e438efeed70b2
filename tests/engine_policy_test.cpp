// Rows 1 to 4 and 13 to 19 of the bug log of other engines, for every registered policy: holes,
// reordering, repeats, and the sizes at which things change. Row 5, the dial from reuse to full
// prefill, is DialTest on a real model.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "support/engine_rig.h"

namespace tessera {
namespace {

class EveryPolicy : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& policy() const { return std::get<0>(GetParam()); }

  Request request(std::vector<PassageText> texts, double ratio = 0.15) const {
    return request_for(policy(), std::move(texts), ratio);
  }

  bool recomputes() const {
    const std::vector<std::string> names = recomputing_policies();
    return std::find(names.begin(), names.end(), policy()) != names.end();
  }
  bool loads_chunks_anywhere() const { return policy() != "full" && policy() != "prefix"; }

  // O2: with every loaded token computed again, and for those that load only what is exact, the
  // answer is full prefill's.
  void expect_full_at_ratio_one(const std::vector<PassageText>& texts, const std::string& what) {
    if (policy() == "reuse") return;
    const Request r = request(texts, 1);
    EXPECT_LE(max_abs_difference(rig_.logits(r), rig_.full_logits(r)), kF16Bound) << what;
  }

  void expect_account(const Prefilled& got, double ratio) {
    const Account a = account_of(got.plan);
    EXPECT_EQ(a.total(), total_tokens(got.prompt));
    const int32_t n_loaded = a.independent + a.soft + a.recomputed;
    EXPECT_EQ(a.recomputed, recomputes() ? recompute_budget(ratio, n_loaded) : 0);
  }

  EngineRig rig_{std::get<1>(GetParam())};
};

TEST_P(EveryPolicy, C1HolesBetweenCachedChunks) {
  rig_.index(passages("ABCDEFGHIJ", 12), AnchorKind::kLeadin);
  const std::vector<PassageText> texts = passages("ABEFHJ", 12);
  const Prefilled got = rig_.prefill(request(texts));
  EXPECT_EQ(matches_of(got), loads_chunks_anywhere() ? "iiiiii" : "------");
  expect_account(got, 0.15);
  expect_full_at_ratio_one(texts, "two holes");
}

TEST_P(EveryPolicy, C2KnownChunksInAnotherOrderWithNothingNew) {
  rig_.index(passages("ABC"), AnchorKind::kLeadin);
  const Prefilled got = rig_.prefill(request(passages("CAB")));
  EXPECT_EQ(matches_of(got), loads_chunks_anywhere() ? "iii" : "---");
  EXPECT_EQ(got.plan.rows.back(), total_tokens(got.prompt) - 1) << "the last token is computed";
  expect_account(got, 0.15);
  expect_full_at_ratio_one(passages("CAB"), "reordered");
}

TEST_P(EveryPolicy, C3SameRequestThreeTimes) {
  const Request r = request(passages("AB"));
  const Answer first = rig_.engine().answer(r);
  const Answer second = rig_.engine().answer(r);
  const Answer third = rig_.engine().answer(r);
  EXPECT_EQ(second.text, third.text);
  EXPECT_EQ(second.account, third.account);
  EXPECT_EQ(first.account.cached(), 0);
  if (policy() != "full") {
    EXPECT_GT(third.account.cached() + third.account.recomputed, 0);
  }
}

TEST_P(EveryPolicy, C4RecomputedTokensAreTheShareThatWasAskedFor) {
  rig_.index(passages("ABC"), AnchorKind::kLeadin);
  for (const double ratio : {0.0, 0.01, 0.15, 0.5, 1.0})
    expect_account(rig_.prefill(request(passages("ABC"), ratio)), ratio);
}

TEST_P(EveryPolicy, NothingIsMeasuredWhereNothingCanBeChosen) {
  rig_.index(passages("ABC"), AnchorKind::kLeadin);
  const Prefilled got = rig_.prefill(request(passages("BCA"), 0));
  EXPECT_EQ(got.probe_rows, 0);
  EXPECT_EQ(got.scorer_rows, 0);
}

TEST_P(EveryPolicy, C13WhichChunksCountAsReusedIsTheSameEveryTime) {
  rig_.index(passages("ABC"), AnchorKind::kLeadin);
  const bool any = loads_chunks_anywhere();
  EXPECT_EQ(matches_of(rig_.prefill(request(passages("DCBA")))), any ? "-iii" : "----");
  EXPECT_EQ(matches_of(rig_.prefill(request(passages("ABCE")))), any ? "iii-" : "----");
}

TEST_P(EveryPolicy, C15ChunkMissedBesideAHitHitsLater) {
  rig_.engine().answer(request(passages("A")));
  rig_.engine().answer(request(passages("AB")));
  const std::string found = matches_of(rig_.prefill(request(passages("BA"))));
  EXPECT_EQ(found, loads_chunks_anywhere() ? "ii" : "--");
}

TEST_P(EveryPolicy, C16RepeatedChunkStandsAtEachOfItsPlaces) {
  rig_.index(passages("AB"), AnchorKind::kLeadin);
  for (const char* order : {"ABA", "AAA", "AABBA"}) {
    expect_account(rig_.prefill(request(passages(order))), 0.15);
    expect_full_at_ratio_one(passages(order), order);
  }
}

TEST_P(EveryPolicy, C17SmallestChunksAndNone) {
  const std::vector<PassageText> smallest = {{"", "a"}, {"", "the"}, {"", "a"}};
  rig_.index(smallest, AnchorKind::kLeadin);
  for (const double ratio : {0.0, 0.15, 1.0}) {
    expect_account(rig_.prefill(request(smallest, ratio)), ratio);
    expect_account(rig_.prefill(request({}, ratio)), ratio);
  }
  expect_full_at_ratio_one(smallest, "one word each");
  expect_full_at_ratio_one({}, "no passages");
}

TEST_P(EveryPolicy, C18ChunksAroundTheSizeOfAMicroBatch) {
  EngineOptions options = tiny_options();
  options.micro_batch = 32;
  rig_.reopen(tiny_model(std::get<1>(GetParam())), options);
  const size_t overhead = rig_.engine().prompts().chunk_ids("", "the").size() - 1;
  for (const size_t n : {31U, 32U, 33U, 64U}) {
    const std::vector<PassageText> texts = {{"", words(n - overhead, 1)}, {"", words(n, 2)}};
    rig_.index(texts, AnchorKind::kLeadin);
    expect_full_at_ratio_one(texts, std::to_string(n));
  }
}

TEST_P(EveryPolicy, C19SuffixOfAnyLengthBehindAHit) {
  rig_.index(passages("AB"), AnchorKind::kLeadin);
  for (const size_t n : {1U, 2U, 31U, 32U, 33U}) {
    Request r = request(passages("AB"), 1);
    r.question = words(n, 3);
    expect_account(rig_.prefill(r), 1);
    if (policy() == "reuse") continue;
    EXPECT_LE(max_abs_difference(rig_.logits(r), rig_.full_logits(r)), kF16Bound) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy,
                         testing::Combine(testing::ValuesIn(names_of_policies()),
                                          testing::Values("llama", "gemma3")),
                         [](const auto& i) {
                           return std::get<0>(i.param) + "_" + std::get<1>(i.param);
                         });

}  // namespace
}  // namespace tessera
