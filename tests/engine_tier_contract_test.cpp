// Rows 1 to 6 and 12 to 19 of the bug log of other engines, for AdaCache's hard and soft tiers.
// Chunks that match alone and chunks that were missed have theirs in engine_policy_test.cpp, with
// every other policy. Every "must miss" stands beside its "must hit".
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "engine/compare.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

Request ada_over(std::vector<PassageText> texts, double beta = 0.3, double alpha = 0.1) {
  Request r = request_for("adacache", std::move(texts), beta);
  r.policy_options.soft_ratio = alpha;
  return r;
}

Request ada(std::string_view order, double beta = 0.3, double alpha = 0.1) {
  return ada_over(passages(order), beta, alpha);
}

// Afterwards `texts` in this order are found in `tier`, hard or soft. Gives their sinks, as in
// Prefilled. A variant all of whose rows were computed is what full prefill gives at its place.
std::vector<int32_t> fill(EngineRig& rig, Match tier, const std::vector<PassageText>& texts) {
  if (tier == Match::kSoft) rig.index(texts, AnchorKind::kLeadin);
  const Request r = tier == Match::kSoft ? ada_over(texts, 1, 1) : request_for("prefix", texts);
  const Prefilled made = rig.prefill(r);
  EXPECT_TRUE(rig.engine().commit(r, made));
  return made.sinks;
}

ChunkPtr with_depth(const KvChunk& chunk, uint32_t depth) {
  return std::make_shared<const KvChunk>(
      chunk.geometry(), std::vector<int32_t>(chunk.ids().begin(), chunk.ids().end()),
      Lineage{depth, 0.15F, 0},
      std::vector<std::byte>(chunk.payload().begin(), chunk.payload().end()));
}

// Each word but the first is one token, so texts that begin with the same one differ in length as
// they do in words.
PassageText text_of(size_t n_words, uint32_t seed) {
  return {"", "the " + words(n_words - 1, seed)};
}

// The ceiling of a percentage, in whole numbers.
int32_t percent_of(int32_t percent, int32_t n) { return (percent * n + 99) / 100; }

class AdaCacheTierTest : public testing::TestWithParam<std::tuple<Match, std::string>> {
 protected:
  Match tier() const { return std::get<0>(GetParam()); }
  const std::string& arch() const { return std::get<1>(GetParam()); }
  bool is_hard() const { return tier() == Match::kExact; }
  std::string all(size_t n) const { return std::string(n, is_hard() ? 'x' : 's'); }
  std::string found(const Request& r) { return matches_of(rig_.prefill(r)); }

  // The rules once more, plainly: `made` was filled in and gave `sinks`, and each of its chunks is
  // there alone too.
  std::string expected(std::string_view order, std::string_view made,
                       const std::vector<int32_t>& sinks) const {
    std::string out;
    bool chain = is_hard();
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t at = made.find(order[i]);
      chain = chain && at == i;
      if (at == std::string_view::npos) {
        out += '-';
        continue;
      }
      const bool met_predecessor = i == 0 ? at == 0 : at > 0 && order[i - 1] == made[at - 1];
      const int32_t sink = sinks[at + 1];  // a segment: the first chunk is 1
      const bool met_sink =
          sink > 0 && order.substr(0, i).find(made[static_cast<size_t>(sink - 1)]) < i;
      const bool is_soft = !is_hard() && (met_predecessor || met_sink);
      out += chain ? 'x' : is_soft ? 's' : 'i';
    }
    return out;
  }

  // O2 of chunks that stand where they were filled in: with nothing of them computed, and with all
  // that may be.
  void expect_full(Request r) {
    const std::vector<float> full = rig_.full_logits(r);
    for (const double ratio : {0.0, 1.0}) {
      r.policy_options.recompute_ratio = ratio;
      r.policy_options.soft_ratio = ratio;
      const Prefilled got = rig_.prefill(r);
      const TokenRange query = got.prompt.segments.back().range;
      const int32_t n_chunks = query.begin - got.prompt.segments.front().range.end;
      const Account a = account_of(got.plan);
      EXPECT_EQ(matches_of(got), all(r.passages.size()));
      EXPECT_EQ(a.fresh, query.size());
      EXPECT_EQ(a.exact, query.begin - (is_hard() ? 0 : n_chunks));
      EXPECT_EQ(a.recomputed, is_hard() || ratio == 0 ? 0 : n_chunks);
      EXPECT_EQ(a.total(), total_tokens(got.prompt));
      EXPECT_LE(max_abs_difference(got.logits, full), kF16Bound) << "ratio " << ratio;
    }
  }

  EngineRig rig_{arch()};
};

// Row 1 is "ABEFHJ", row 2 "CAB", row 13 "DCBA" and the one with a chunk that nobody stored.
TEST_P(AdaCacheTierTest, C1C2C13HolesAndOtherOrdersAreFoundByTheRules) {
  const std::string_view made = "ABCDEFGHIJ";
  const std::vector<int32_t> sinks = fill(rig_, tier(), passages(made, 12));
  rig_.index(passages(made, 12), AnchorKind::kLeadin);
  ASSERT_EQ(expected(made, made, sinks), all(made.size()));
  for (const char* order : {"ABCDEFGHIJ", "ABEFHJ", "CAB", "DCBA", "ABCZ", "ZABC", "JIHGFEDCBA",
                            "BDFHJ", "ACEGI", "HIJAB"}) {
    const Request r = ada_over(passages(order, 12), 1, 1);
    const Prefilled got = rig_.prefill(r);
    EXPECT_EQ(matches_of(got), expected(order, made, sinks)) << order;
    EXPECT_EQ(got.plan.rows.back(), total_tokens(got.prompt) - 1) << "the last token is computed";
    EXPECT_LE(max_abs_difference(got.logits, rig_.full_logits(r)), kF16Bound) << order;
  }
}

TEST_P(AdaCacheTierTest, C3SameRequestThreeTimes) {
  fill(rig_, tier(), passages("ABC"));
  const Request r = ada("ABC");
  const Answer first = rig_.engine().answer(r);
  EXPECT_GT(first.account.cached(), 0);
  for (int again = 0; again < 2; ++again) {
    const Answer answer = rig_.engine().answer(r);
    EXPECT_EQ(answer.text, first.text);
    EXPECT_EQ(answer.account, first.account);
    EXPECT_EQ(found(r), all(3));
  }
}

TEST_P(AdaCacheTierTest, C14ChunkHasTheSameIdsAloneAndInAPrompt) {
  const std::vector<PassageText> texts = {
      {"", "you"}, {"", "are "}, {"", "the riv"}, {"", "in\n"}, {"title", "日本"}};
  fill(rig_, tier(), texts);
  const Prefilled got = rig_.prefill(ada_over(texts));
  ASSERT_EQ(matches_of(got), all(texts.size()));
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<int32_t> alone =
        rig_.engine().prompts().chunk_ids(texts[i].title, texts[i].text);
    const TokenRange range = got.prompt.segments[i + 1].range;
    const auto begin = got.prompt.ids.begin() + range.begin;
    EXPECT_EQ(alone, std::vector<int32_t>(begin, begin + range.size()));
    EXPECT_TRUE(std::ranges::equal(got.found[i + 1].chunk->ids(), alone));
    EXPECT_EQ(std::count(alone.begin(), alone.end(), tiny_model(arch()).tokenizer.bos()), 0);
  }
  expect_full(ada_over(texts));

  EXPECT_EQ(found(ada_over({texts[0], {"", "are"}})), all(1) + "-")
      << "a space less is another chunk";
}

TEST_P(AdaCacheTierTest, C16RepeatedChunkStandsAtEachOfItsPlaces) {
  for (const std::string_view order : {"ABA", "AAA", "AABBA"}) {
    EngineRig rig(arch());
    fill(rig, tier(), passages(order));
    const Request r = ada(order, 1, 1);
    const Prefilled got = rig.prefill(r);
    EXPECT_EQ(matches_of(got), all(order.size())) << order;
    EXPECT_LE(max_abs_difference(got.logits, rig.full_logits(r)), kF16Bound) << order;
  }
}

// A hard match is of one place; two variants of one company are one blob.
TEST_P(AdaCacheTierTest, C16RepeatedChunkSharesABlobWhereItMayAndPinsBalance) {
  fill(rig_, tier(), passages("AAA"));
  const Request r = ada("AAA");
  const ChunkPtr last = rig_.prefill(r).found[3].chunk;
  ASSERT_NE(last, nullptr);
  const long n_users = last.use_count();
  {
    const Prefilled got = rig_.prefill(r);
    const std::set<ChunkKey> keys = {got.found[1].key, got.found[2].key, got.found[3].key};
    EXPECT_EQ(keys.size(), is_hard() ? 3U : 2U);
    EXPECT_EQ(last.use_count(), n_users + (is_hard() ? 1 : 2));
  }
  EXPECT_EQ(last.use_count(), n_users);
  rig_.engine().answer(r);
  EXPECT_EQ(last.use_count(), n_users);
}

TEST_P(AdaCacheTierTest, C17SmallestChunksAndNone) {
  const std::vector<PassageText> smallest = {{"", "a"}, {"", "the"}, {"", "a"}};
  fill(rig_, tier(), smallest);
  expect_full(ada_over(smallest));
  for (const int32_t percent : {1, 15, 50}) {
    const Prefilled got = rig_.prefill(ada_over(smallest, percent / 100.0, percent / 100.0));
    const int32_t n_chunks =
        got.prompt.segments.back().range.begin - got.prompt.segments.front().range.end;
    EXPECT_EQ(account_of(got.plan).recomputed, is_hard() ? 0 : percent_of(percent, n_chunks));
  }
  expect_full(ada_over({}));

  for (const char* blank : {"", " ", "\r\n\t"}) {
    std::vector<PassageText> texts = smallest;
    texts[1].text = blank;
    EXPECT_THROW(rig_.prefill(ada_over(texts)), Error);
    Request without_question = ada_over(smallest);
    without_question.question = blank;
    EXPECT_THROW(rig_.prefill(without_question), Error);
    EXPECT_EQ(found(ada_over(smallest)), all(3)) << "the twin";
  }
}

TEST_P(AdaCacheTierTest, C18ChunksAroundTheSizeOfAMicroBatch) {
  EngineOptions options = tiny_options();
  options.micro_batch = 32;
  rig_.reopen(tiny_model(arch()), options);
  const size_t overhead = rig_.engine().prompts().chunk_ids("", "the").size() - 1;
  for (const size_t n : {31U, 32U, 33U, 64U}) {
    SCOPED_TRACE(n);
    const std::vector<PassageText> texts = {text_of(n - overhead, 1), text_of(n - overhead, 2)};
    ASSERT_EQ(rig_.engine().prompts().chunk_ids("", texts[1].text).size(), n);
    fill(rig_, tier(), texts);
    expect_full(ada_over(texts));
  }
}

TEST_P(AdaCacheTierTest, C19SuffixOfAnyLengthBehindAHit) {
  fill(rig_, tier(), passages("AB"));
  for (const size_t n : {1U, 2U, 31U, 32U, 33U}) {
    SCOPED_TRACE(n);
    Request r = ada("AB");
    r.question = words(n, 3);
    expect_full(r);
  }
}

TEST_P(AdaCacheTierTest, OtherNamespaceOrModelFindsNothing) {
  fill(rig_, tier(), passages("AB"));
  EngineOptions other_space = tiny_options(), other_model = tiny_options();
  other_space.name_space = "other";
  other_model.model_digest = "other";
  for (const EngineOptions& other : {other_space, other_model}) {
    rig_.reopen(tiny_model(arch()), other);
    EXPECT_EQ(found(ada("AB")), "--");
    fill(rig_, tier(), passages("AB"));
    EXPECT_EQ(found(ada("AB")), all(2)) << "its own";
    rig_.reopen(tiny_model(arch()), tiny_options());
    EXPECT_EQ(found(ada("AB")), all(2)) << "the first one's are there still";
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdaCacheTierTest,
                         testing::Combine(testing::Values(Match::kExact, Match::kSoft),
                                          testing::Values("llama", "qwen2", "gemma3")),
                         [](const auto& i) {
                           const bool is_hard = std::get<0>(i.param) == Match::kExact;
                           return (is_hard ? "hard_" : "soft_") + std::get<1>(i.param);
                         });

class AdaCacheContractTest : public testing::TestWithParam<std::string> {
 protected:
  void index(std::string_view order) { rig_.index(passages(order), AnchorKind::kLeadin); }
  void answer(const Request& r) { rig_.engine().answer(r); }
  std::string found(const Request& r) { return matches_of(rig_.prefill(r)); }

  EngineRig rig_{GetParam()};
};

// The first chunk looks at no other, so it has a variant only once it has a budget of its own.
TEST_P(AdaCacheContractTest, C3SameRequestSettlesWhenEachChunkHasItsVariant) {
  index("ABC");
  const Request r = ada("ABC");
  for (const char* expected : {"iii", "iss"}) {
    EXPECT_EQ(found(r), expected);
    answer(r);
  }
  EXPECT_EQ(found(r), "sss");
  const Answer third = rig_.engine().answer(r);
  const Answer fourth = rig_.engine().answer(r);
  EXPECT_EQ(third.text, fourth.text);
  EXPECT_EQ(third.account, fourth.account);
}

TEST_P(AdaCacheContractTest, C4EachTierGetsItsOwnShareAndNoMore) {
  index("BD");
  answer(request_for("prefix", passages("A")));
  answer(ada("AB"));
  const std::vector<std::pair<int32_t, int32_t>> cases = {
      {0, 15}, {1, 15}, {8, 15}, {10, 40}, {30, 100}};
  for (const auto& [alpha, beta] : cases) {
    const Prefilled got = rig_.prefill(ada("ABDE", beta / 100.0, alpha / 100.0));
    ASSERT_EQ(matches_of(got), "xsi-");
    const std::vector<int32_t> percents = {0, 0, alpha, beta, 100, 100};
    for (size_t i = 0; i < percents.size(); ++i) {
      const TokenRange range = got.prompt.segments[i].range;
      EXPECT_EQ(rows_within(got.plan.rows, range).size(), percent_of(percents[i], range.size()))
          << "segment " << i << ", " << alpha << " and " << beta << " percent";
    }
  }
}

// K lies in the store as it is before its rotation, and each use rotates it once.
TEST_P(AdaCacheContractTest, C6VariantUsedAtFiftyPlacesIsStillWhatWasMade) {
  rig_.index(passages("ABZ", 12), AnchorKind::kLeadin);
  answer(ada_over(passages("AB", 12), 1, 1));
  const Request fixed = ada_over(passages("ZAB", 12));
  const Prefilled before = rig_.prefill(fixed);
  ASSERT_EQ(matches_of(before), "iis");
  const uint64_t made = xxh3_64(before.found[3].chunk->payload());
  for (size_t n = 1; n <= 50; ++n) {
    Request moved = ada_over(passages("AB", 12));
    moved.passages.insert(moved.passages.begin(), PassageText{"", words(n, 1)});
    const Prefilled got = rig_.prefill(moved);
    ASSERT_EQ(matches_of(got), "-is") << n;
    ASSERT_EQ(got.found[3].key, before.found[3].key) << n;
    ASSERT_EQ(xxh3_64(got.found[3].chunk->payload()), made) << n;
    ASSERT_TRUE(rig_.engine().commit(moved, got));
  }
  EXPECT_EQ(rig_.logits(fixed), before.logits);
  rig_.restart();
  EXPECT_EQ(xxh3_64(rig_.prefill(fixed).found[3].chunk->payload()), made) << "on disk too";
}

TEST_P(AdaCacheContractTest, C15WhatWasMissedIsKeptAsWhatItIs) {
  answer(ada("AB"));
  EXPECT_EQ(found(ada("AB")), "xx") << "nothing approximate stood before them";
  EXPECT_EQ(found(ada("BA")), "ii") << "and each was made alone";

  index("CG");
  answer(ada("CDE"));
  EXPECT_EQ(found(ada("CDE")), "sss") << "made behind C, which was loaded";
  EXPECT_EQ(found(request_for("prefix", passages("CDE"))), "---") << "so exact for nobody";
  EXPECT_EQ(found(ada("EDC")), "iii");

  answer(ada("CDEF"));
  EXPECT_EQ(found(ada("CDEF")), "sssi") << "behind soft matches only what is made alone is kept";
  answer(ada("GF"));
  EXPECT_EQ(found(ada("GF")), "is") << "the twin, behind an independent one";
}

TEST_P(AdaCacheContractTest, HardMatchNeedsTheVeryTokensBefore) {
  index("ABCD");
  answer(request_for("prefix", passages("ABC")));
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"ABC", "xxx"}, {"AB", "xx"}, {"ABCD", "xxxi"}, {"ABDC", "xxii"}, {"BAC", "iii"}};
  for (const auto& [order, matches] : cases) EXPECT_EQ(found(ada(order)), matches) << order;
  Request other = ada("ABC");
  other.passages[1].text += " the";
  EXPECT_EQ(found(other), "x-i") << "another text";
  other = ada("ABC");
  other.system = "two words";
  EXPECT_EQ(found(other), "iii") << "another preamble";
  other = ada("ABC");
  other.anchor = AnchorKind::kPreamble;
  EXPECT_EQ(found(other), "xxx") << "behind the same tokens the anchor does not matter";
}

TEST_P(AdaCacheContractTest, HardMatchOfAFirstChunkIsThatOfTheAnchorThatStandsThere) {
  rig_.index(passages("A"), AnchorKind::kPreamble);
  Request r = ada("A");
  r.anchor = AnchorKind::kPreamble;
  EXPECT_EQ(found(r), "x");
  r.system = "two words";
  EXPECT_EQ(found(r), "i") << "the anchor does not stand before it";
  EXPECT_EQ(found(ada("A")), "-") << "another anchor";
}

TEST_P(AdaCacheContractTest, ChainEndsAtKvThatIsNotExact) {
  index("ABC");
  answer(request_for("prefix", passages("ABC")));
  const Prefilled exact = rig_.prefill(ada("ABC"));
  ASSERT_EQ(matches_of(exact), "xxx");
  const FoundSegment& second = exact.found[2];
  ASSERT_TRUE(rig_.store().put(second.key, with_depth(*second.chunk, 1)));
  EXPECT_EQ(found(ada("ABC")), "xii");
  ASSERT_TRUE(rig_.store().put(second.key, with_depth(*second.chunk, 0)));
  EXPECT_EQ(found(ada("ABC")), "xxx") << "the twin";
}

// What the index says and what the blob says both have to hold.
TEST_P(AdaCacheContractTest, SoftMatchIsMadeOverApproximateKvAtMostOnce) {
  constexpr uint32_t kMost = kMaxApproximationDepth, kTooMany = kMost + 1;
  index("AB");
  answer(ada("AB"));
  const Prefilled made = rig_.prefill(ada("AB"));
  ASSERT_EQ(matches_of(made), "is");
  const FoundSegment& b = made.found[2];
  const ChunkKey chunk = identity_of(rig_.engine().domain(), b.chunk->ids());
  VariantIndex& index = *rig_.store().variants();
  const std::vector<Variant> kept = index.find(chunk);
  ASSERT_EQ(kept.size(), 1U);
  Request paper = ada("AB");
  paper.policy_options.hard_as_paper = true;
  const std::vector<std::tuple<uint32_t, uint32_t, const char*>> cases = {
      {0, 0, "is"}, {kMost, kMost, "is"}, {kTooMany, kMost, "ii"}, {kMost, kTooMany, "ii"}};
  for (const auto& [listed, in_blob, matches] : cases) {
    ASSERT_TRUE(rig_.store().put(b.key, with_depth(*b.chunk, in_blob)));
    index.erase(chunk, b.key);
    std::vector<Variant> gone;
    ASSERT_EQ(index.admit(chunk, {b.key, kept[0].company, listed, true}, gone),
              VariantIndex::Admission::kKept);
    EXPECT_EQ(found(ada("AB")), matches) << listed << ' ' << in_blob;
    EXPECT_EQ(found(paper), "is") << "who trusts it takes it";
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdaCacheContractTest, testing::Values("llama", "qwen2", "gemma3"),
                         [](const auto& i) { return i.param; });

// Row 12: a prompt of one and a half times the window that most layers have.
TEST(AdaCacheWindowTest, C12PromptLongerThanTheWindowIsAnsweredTheSameFourTimes) {
  constexpr size_t kWindow = 128;
  const TinyModel windowed({.arch = "gemma3", .sliding_window = kWindow});
  for (const Match tier : {Match::kExact, Match::kSoft}) {
    EngineRig rig(windowed);
    const size_t n_bare = rig.engine().prompt_of(ada_over({})).ids.size();
    const size_t overhead = rig.engine().prompts().chunk_ids("", "the").size() - 1;
    ASSERT_LT(n_bare + 2 * overhead + 4, kWindow * 3 / 2);
    const size_t n_words = kWindow * 3 / 2 - n_bare - 2 * overhead;
    const std::vector<PassageText> texts = {text_of(n_words / 2, 1),
                                            text_of(n_words - n_words / 2, 2)};
    Request r = ada_over(texts, 0, 0);
    ASSERT_EQ(rig.engine().prompt_of(r).ids.size(), kWindow * 3 / 2);
    fill(rig, tier, texts);
    EXPECT_LE(max_abs_difference(rig.logits(r), rig.full_logits(r)), kF16Bound);

    r = ada_over(texts);
    const Answer first = rig.engine().answer(r);
    const std::vector<float> logits = rig.logits(r);
    for (int again = 0; again < 3; ++again) {
      const Answer answer = rig.engine().answer(r);
      EXPECT_EQ(answer.text, first.text);
      EXPECT_EQ(answer.account, first.account);
      EXPECT_EQ(matches_of(rig.prefill(r)), tier == Match::kExact ? "xx" : "ss");
    }
    EXPECT_EQ(rig.logits(r), logits);
  }
}

// Row 5, on models without a sliding window, through which little of a stale chunk would show.
class AdaCacheDialTest : public testing::TestWithParam<std::string> {
 protected:
  double mean_kl(const std::vector<std::string>& orders, double beta, double alpha,
                 const std::string& matches) {
    double sum = 0;
    for (const std::string& order : orders) {
      const Request r = ada(order, beta, alpha);
      const Reference full = full_reference(rig_.engine(), r);
      const Prefilled ours = rig_.prefill(r);
      EXPECT_EQ(matches_of(ours), matches);
      EXPECT_EQ(ours.prompt.segments.front().match, Match::kExact) << "the preamble is resident";
      sum += distance_between(full.logits, rig_.engine().forced_logits(ours, full.tokens),
                              rig_.engine().decoder().config().n_vocab)
                 .mean_kl;
    }
    return sum / static_cast<double>(orders.size());
  }

  // A quarter of what plain reuse costs is noise: rows put at wrong places would cost far more.
  static void expect_falling_to_full(const std::vector<double>& kl) {
    EXPECT_LT(kl.back(), 1e-3);
    EXPECT_GT(kl.front(), 10 * kl.back());
    for (size_t i = 1; i < kl.size(); ++i) EXPECT_LE(kl[i], kl[i - 1] + 0.25 * kl.front()) << i;
  }

  static constexpr std::array<double, 5> kRatios = {0, 0.25, 0.5, 0.75, 1};
  EngineRig rig_{GetParam()};
};

TEST_P(AdaCacheDialTest, C5MoreOfIndependentMatchesIsNearerToFull) {
  rig_.index(passages("ABCDEF"), AnchorKind::kLeadin);
  std::vector<double> kl;
  for (const double beta : kRatios)
    kl.push_back(mean_kl({"ABC", "BCA", "CAB", "DEF", "EFD", "FDE"}, beta, beta, "iii"));
  expect_falling_to_full(kl);
}

// Behind another first chunk than they were made behind; all else is computed in full.
TEST_P(AdaCacheDialTest, C5MoreOfSoftMatchesIsNearerToFull) {
  rig_.index(passages("ABCDEFGHIJKLQSUW"), AnchorKind::kLeadin);
  for (const char* made : {"PABC", "RDEF", "TGHI", "VJKL"})
    fill(rig_, Match::kSoft, passages(made));
  std::vector<double> kl;
  for (const double alpha : kRatios)
    kl.push_back(mean_kl({"QABC", "SDEF", "UGHI", "WJKL"}, 1, alpha, "iiss"));
  expect_falling_to_full(kl);
}

INSTANTIATE_TEST_SUITE_P(All, AdaCacheDialTest, testing::Values("llama", "qwen2"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace tessera
