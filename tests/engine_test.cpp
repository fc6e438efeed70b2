// The engine against the oracles of DESIGN.md section 8 on tiny random models: where KV comes from,
// in which order and how often changes the account, and the logits only as far as the policy says.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "engine/compare.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

using testing::Each;

class EveryFamily : public testing::TestWithParam<std::string> {
 protected:
  EngineRig rig_{GetParam()};
};

// O1. One blob, three places to find it: the bytes are the same, so there is no tolerance.
TEST_P(EveryFamily, HitsFromRamAndFromDiskGiveTheSameLogits) {
  for (const PolicyInfo& info : policies()) {
    const std::string policy(info.name);
    if (policy == "full") continue;
    const Request request = request_for(policy, passages("ABC"));
    rig_.engine().answer(request);

    const Prefilled from_ram = rig_.prefill(request);
    rig_.restart();
    const Prefilled from_disk = rig_.prefill(request);
    const Prefilled promoted = rig_.prefill(request);

    EXPECT_THAT(tiers_of(from_ram), Each("ram")) << policy;
    EXPECT_THAT(tiers_of(from_disk), Each("disk")) << policy;
    EXPECT_THAT(tiers_of(promoted), Each("ram")) << policy;
    EXPECT_EQ(from_ram.logits, from_disk.logits) << policy;
    EXPECT_EQ(from_ram.logits, promoted.logits) << policy;
  }
}

// O2. The twin shows that this model sees the difference that ratio 1 takes away.
TEST_P(EveryFamily, RatioOneEqualsFullPrefill) {
  rig_.index(passages("ABC"), AnchorKind::kLeadin);
  const std::vector<float> full = rig_.full_logits(request_for("full", passages("ABC")));
  for (const std::string& policy : recomputing_policies()) {
    const Prefilled ours = rig_.prefill(request_for(policy, passages("ABC"), 1.0));
    const Request none = request_for(policy, passages("ABC"), 0.0);

    EXPECT_EQ(matches_of(ours), "iii") << policy;
    EXPECT_LE(max_abs_difference(ours.logits, full), kF16Bound) << policy;
    EXPECT_GT(max_abs_difference(rig_.logits(none), full), kF16Bound) << policy;
  }
}

TEST_P(EveryFamily, RatioZeroEqualsPlainReuse) {
  rig_.index(passages("ABC"), AnchorKind::kLeadin);
  const std::vector<float> reuse = rig_.logits(request_for("reuse", passages("ABC")));
  for (const std::string& policy : recomputing_policies()) {
    if (policy == "cacheblend") continue;  // its lowest layers are those of full prefill
    EXPECT_EQ(rig_.logits(request_for(policy, passages("ABC"), 0.0)), reuse) << policy;
    EXPECT_NE(rig_.logits(request_for(policy, passages("ABC"), 0.5)), reuse) << policy;
  }
}

// A chunk that is missed beside hits is fresh in the probe as well as afterwards.
TEST_P(EveryFamily, RatioOneEqualsFullPrefillBesideAMiss) {
  rig_.index(passages("AC"), AnchorKind::kLeadin);
  const std::vector<float> full = rig_.full_logits(request_for("full", passages("ABCA")));
  for (const std::string& policy : recomputing_policies()) {
    const Prefilled ours = rig_.prefill(request_for(policy, passages("ABCA"), 1.0));

    EXPECT_EQ(matches_of(ours), "i-ii") << policy;
    EXPECT_LE(max_abs_difference(ours.logits, full), kF16Bound) << policy;
  }
}

// Micro-batches of a probe, and of the rows that resume from it, leave no trace.
TEST_P(EveryFamily, ProbesInMicroBatchesChooseAndComputeTheSame) {
  EngineOptions small = tiny_options();
  small.micro_batch = 64;
  EngineRig other(tiny_model(GetParam()), small);
  for (EngineRig* rig : {&rig_, &other}) rig->index(passages("AC"), AnchorKind::kLeadin);
  for (const std::string& policy : recomputing_policies()) {
    const Request request = request_for(policy, passages("ABCA"), 0.3);

    const Prefilled whole = rig_.prefill(request), parts = other.prefill(request);

    EXPECT_EQ(whole.plan.rows, parts.plan.rows) << policy;
    EXPECT_LE(max_abs_difference(whole.logits, parts.logits), 1e-3F) << policy;
    EXPECT_DOUBLE_EQ(whole.probe_rows, parts.probe_rows) << policy;
  }
}

// O2, the other end: a chunk that stands behind its own anchor is exact, so nothing of it is
// recomputed.
TEST_P(EveryFamily, FirstChunkBehindItsPreambleIsExactForEveryPolicy) {
  Request request = request_for("reuse", passages("A"));
  request.anchor = AnchorKind::kPreamble;
  rig_.index(request.passages, AnchorKind::kPreamble);
  const std::vector<float> full = rig_.full_logits(request);
  for (const PolicyInfo& policy_info : policies()) {
    const std::string policy(policy_info.name);
    if (policy == "full") continue;
    request.policy = policy;

    const Prefilled ours = rig_.prefill(request);

    const Account account = account_of(ours.plan);
    EXPECT_EQ(matches_of(ours), "x") << policy;
    EXPECT_EQ(account.exact, ours.prompt.segments[1].range.end) << policy;
    EXPECT_EQ(account.independent + account.recomputed, 0) << policy;
    EXPECT_LE(max_abs_difference(ours.logits, full), kF16Bound) << policy;
  }
}

// The same when no index was made: the preamble is computed anew, so what stands behind it is as
// exact.
TEST_P(EveryFamily, FirstChunkBehindItsPreambleIsExactOnceAnAnswerHasMadeIt) {
  Request request = request_for("epic", passages("AB"));
  request.anchor = AnchorKind::kPreamble;
  rig_.engine().answer(request);

  const Prefilled ours = rig_.prefill(request);
  std::swap(request.passages[0], request.passages[1]);
  const Prefilled swapped = rig_.prefill(request);

  EXPECT_EQ(matches_of(ours), "xi");
  EXPECT_EQ(matches_of(swapped), "xi");
}

TEST_P(EveryFamily, PrefixLoadsTheWholeChainTheSecondTime) {
  const Request request = request_for("prefix", passages("ABC"));
  const std::vector<float> full = rig_.full_logits(request);
  EXPECT_EQ(rig_.logits(request), full) << "nothing stored yet";
  rig_.engine().answer(request);

  const Prefilled second = rig_.prefill(request);

  const Account account = account_of(second.plan);
  EXPECT_EQ(account.exact, second.prompt.segments.back().range.begin) << "preamble and all chunks";
  EXPECT_EQ(account.recomputed, 0);
  EXPECT_LE(max_abs_difference(second.logits, full), kF16Bound);
}

TEST_P(EveryFamily, PrefixLoadsOnlyTheCommonPrefixOfAnotherOrder) {
  rig_.engine().answer(request_for("prefix", passages("ABC")));
  const Request reordered = request_for("prefix", passages("ACB"));

  const Prefilled ours = rig_.prefill(reordered);

  EXPECT_EQ(matches_of(ours), "x--");
  EXPECT_EQ(account_of(ours.plan).exact, ours.prompt.segments[1].range.end);
  EXPECT_LE(max_abs_difference(ours.logits, rig_.full_logits(reordered)), kF16Bound);
  EXPECT_EQ(matches_of(rig_.prefill(request_for("prefix", passages("ABC")))), "xxx") << "the twin";
}

// RELIABILITY C 19: any number of rows behind reused KV.
TEST_P(EveryFamily, QuestionOfAnyLengthBehindReusedKvEqualsFull) {
  rig_.engine().answer(request_for("prefix", passages("AB")));
  for (const size_t n : {1U, 2U, 31U, 32U, 33U}) {
    Request request = request_for("prefix", passages("AB"));
    request.question = words(n, 9);

    const Prefilled ours = rig_.prefill(request);

    EXPECT_EQ(matches_of(ours), "xx");
    EXPECT_LE(max_abs_difference(ours.logits, rig_.full_logits(request)), kF16Bound) << n;
  }
}

// O7. Whatever was computed before leaves no trace.
TEST_P(EveryFamily, FullDoesNotDependOnWhatRanBefore) {
  const Request request = request_for("full", passages("AB"));
  const std::vector<float> first = rig_.logits(request);
  const std::string text = rig_.engine().answer(request).text;

  rig_.engine().answer(request_for("epic", passages("CADBE")));
  rig_.engine().answer(request_for("prefix", passages("BA", 90)));

  EXPECT_EQ(rig_.logits(request), first);
  EXPECT_EQ(rig_.engine().answer(request).text, text);
  EngineRig fresh(GetParam());
  EXPECT_EQ(fresh.logits(request), first);
}

// Rows C 2, 3 and 16. The oracle puts every chunk in place by itself, through the decoder.
TEST_P(EveryFamily, EveryCopyOfAChunkStandsAtItsOwnPlace) {
  rig_.index(passages("AB"), AnchorKind::kLeadin);
  for (const char* order : {"ABA", "AAA", "BAB"}) {
    const Request request = request_for("reuse", passages(order));
    const Prefilled ours = rig_.prefill(request);
    ASSERT_EQ(matches_of(ours), "iii");

    WorkingKv kv(rig_.engine().decoder().config(), 1024);
    std::vector<int32_t> rows, tokens;
    for (size_t i = 0; i < ours.prompt.segments.size(); ++i) {
      const Segment& s = ours.prompt.segments[i];
      if (s.kind == SegmentKind::kChunk) {
        const Decoder::Placement place = {ours.found[i].chunk.get(), s.range.begin};
        rig_.engine().decoder().load(kv, {&place, 1});
        continue;
      }
      for (int32_t p = s.range.begin; p < s.range.end; ++p) {
        if (s.match == Match::kExact) continue;
        rows.push_back(p);
        tokens.push_back(ours.prompt.ids[static_cast<size_t>(p)]);
      }
      if (s.match != Match::kExact) continue;
      const Decoder::Placement place = {ours.found[i].chunk.get(), s.range.begin};
      rig_.engine().decoder().load(kv, {&place, 1});
    }
    StepOptions last;
    last.logit_rows = {static_cast<int32_t>(rows.size()) - 1};
    EXPECT_EQ(rig_.engine().decoder().prefill({&kv, tokens, rows}, last).logits, ours.logits)
        << order;
  }
  EXPECT_NE(rig_.logits(request_for("reuse", passages("ABA"))),
            rig_.logits(request_for("reuse", passages("AAB"))));
}

TEST_P(EveryFamily, ForcedLogitsEqualTokensGivenOneByOne) {
  const Request request = request_for("epic", passages("AB"));
  Prefilled prompt = rig_.prefill(request);
  const std::vector<int32_t> tokens = random_ids(5, rig_.engine().decoder().config().n_vocab, 3);

  const std::vector<float> forced = rig_.engine().forced_logits(prompt, tokens);

  std::vector<float> expected = prompt.logits;
  StepOptions options;  // the same kernel class
  options.logit_rows = {0};
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const int32_t position = total_tokens(prompt.prompt) + static_cast<int32_t>(i);
    const SequenceRows row = {&rig_.engine().kv(), {&tokens[i], 1}, {&position, 1}};
    const std::vector<float> next = rig_.engine().decoder().step({&row, 1}, options).logits;
    expected.insert(expected.end(), next.begin(), next.end());
  }
  // Not quite equal: attention over fewer keys is cut into other tiles.
  EXPECT_LE(max_abs_difference(forced, expected), 1e-3F);
}

INSTANTIATE_TEST_SUITE_P(Tiny, EveryFamily, testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& i) { return i.param; });

class EngineTest : public testing::Test {
 protected:
  EngineRig rig_{"llama"};
};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Row C 4: exactly ceil(ratio x loaded) are computed again, however the sizes fall.
TEST_F(EngineTest, AccountSumsToThePromptOverRandomRequests) {
  std::mt19937 random(11);
  const double ratios[] = {0.0, 0.15, 0.5, 1.0};
  const std::vector<std::string> recomputing = recomputing_policies();
  for (int round = 0; round < 24; ++round) {
    std::vector<PassageText> texts;
    for (size_t n = random() % 7; n > 0; --n) {
      const auto seed =
          static_cast<uint32_t>(random() % 6);  // few, so that chunks come back and come twice
      texts.push_back({"", seed == 0 ? "a" : words(1 + seed * seed * 7, seed)});
    }
    for (const PolicyInfo& policy : policies()) {
      const double ratio = ratios[random() % 4];
      Request request = request_for(policy.name, texts, ratio);
      request.max_tokens = 0;

      const Prefilled ours = rig_.prefill(request);
      rig_.engine().commit(request, ours);

      const Account account = account_of(ours.plan);
      const int32_t n_loaded = account.independent + account.recomputed;
      EXPECT_EQ(account.total(), total_tokens(ours.prompt)) << policy.name;
      EXPECT_EQ(account.rows(), static_cast<int32_t>(ours.plan.rows.size())) << policy.name;
      EXPECT_EQ(ours.plan.rows.back(), total_tokens(ours.prompt) - 1) << policy.name;
      const double expected =
          contains(recomputing, policy.name) ? std::ceil(ratio * n_loaded - 1e-6) : 0.0;
      EXPECT_EQ(account.recomputed, static_cast<int32_t>(expected))
          << policy.name << " ratio " << ratio << " of " << n_loaded;
      if (policy.name == "full") {
        EXPECT_EQ(account.cached(), 0);
      }
    }
  }
}

TEST_F(EngineTest, SegmentsOfAnAnswerSumToItsAccount) {
  const Request request = request_for("epic", passages("ABA"), 0.5);
  rig_.engine().answer(request);

  const Answer answer = rig_.engine().answer(request);

  int32_t n_tokens = 0, recomputed = 0;
  for (const SegmentReport& s : answer.segments) {
    n_tokens += s.n_tokens;
    recomputed += s.recomputed;
    EXPECT_EQ(s.tier.empty(), s.match == Match::kMiss);
  }
  EXPECT_EQ(n_tokens, answer.account.total());
  EXPECT_EQ(recomputed, answer.account.recomputed);
  EXPECT_GT(recomputed, 0);
  EXPECT_EQ(answer.segments.size(), 5U);
}

// Row C 3.
TEST_F(EngineTest, SameRequestThreeTimesGivesTheSameAnswerOnceStored) {
  const Request request = request_for("epic", passages("ABC"));
  const Answer first = rig_.engine().answer(request);
  EXPECT_EQ(first.account.cached(), 0);

  const Answer second = rig_.engine().answer(request);
  const Answer third = rig_.engine().answer(request);

  EXPECT_EQ(second.text, third.text);
  EXPECT_EQ(second.tokens, third.tokens);
  EXPECT_EQ(second.account, third.account);
  EXPECT_GT(third.account.cached(), 0);
}

// Row C 2: all chunks are there, in another order, and nothing is new but the question.
TEST_F(EngineTest, KnownChunksInAnotherOrderAllHit) {
  rig_.engine().answer(request_for("reuse", passages("ABC")));

  const Prefilled reordered = rig_.prefill(request_for("reuse", passages("CAB")));

  EXPECT_EQ(matches_of(reordered), "iii");
  for (const float x : reordered.logits) ASSERT_TRUE(std::isfinite(x));
}

// Rows C 13 and 15: what a request missed is there for the next one, and only that.
TEST_F(EngineTest, ChunkMissedBesideAHitIsStoredToo) {
  for (const char* policy : {"reuse", "epic"}) {
    EngineRig rig("llama");
    rig.engine().answer(request_for(policy, passages("A")));
    const Prefilled second = rig.prefill(request_for(policy, passages("AB")));
    EXPECT_EQ(matches_of(second), "i-") << policy;
    rig.engine().answer(request_for(policy, passages("AB")));

    EXPECT_EQ(matches_of(rig.prefill(request_for(policy, passages("BA")))), "ii") << policy;
    EXPECT_EQ(matches_of(rig.prefill(request_for(policy, passages("DBCA")))), "-i-i") << policy;
  }
}

TEST_F(EngineTest, RepeatedNewChunkIsStoredOnce) {
  rig_.engine().answer(request_for("reuse", passages("AAA")));

  EXPECT_EQ(rig_.blobs().size(), 2U) << "with the preamble";
  EXPECT_EQ(matches_of(rig_.prefill(request_for("reuse", passages("AAA")))), "iii");
}

TEST_F(EngineTest, ChunksOfAnotherAnchorAreNotLoaded) {
  rig_.index(passages("AB"), AnchorKind::kLeadin);
  Request request = request_for("reuse", passages("AB"));
  EXPECT_EQ(matches_of(rig_.prefill(request)), "ii");
  for (const AnchorKind kind : {AnchorKind::kBare, AnchorKind::kPreamble}) {
    request.anchor = kind;
    EXPECT_EQ(matches_of(rig_.prefill(request)), "--");
  }
}

// The anchor's text belongs to the store, so a request's own system message loads the same chunks.
TEST_F(EngineTest, RequestWithItsOwnSystemMessageLoadsTheSameChunks) {
  rig_.index(passages("AB"), AnchorKind::kPreamble);
  Request request = request_for("reuse", passages("AB"));
  request.anchor = AnchorKind::kPreamble;
  EXPECT_EQ(matches_of(rig_.prefill(request)), "xi");

  request.system = "one two three";

  EXPECT_EQ(matches_of(rig_.prefill(request)), "ii") << "no longer behind its own anchor";
}

TEST_F(EngineTest, NoPassagesIsAPlainQuestion) {
  for (const PolicyInfo& policy : policies()) {
    Request request = request_for(policy.name, {});

    const Answer answer = rig_.engine().answer(request);

    EXPECT_EQ(answer.segments.size(), 2U);
    EXPECT_EQ(answer.account.total(), answer.segments[0].n_tokens + answer.segments[1].n_tokens);
  }
}

TEST_F(EngineTest, OneTokenQuestionAndPassageAreAnswered) {
  Request request = request_for("epic", {{"", "a"}, {"", "b"}, {"", "a"}});
  request.question = "a";
  rig_.engine().answer(request);

  EXPECT_EQ(matches_of(rig_.prefill(request)), "iii");
  request.policy_options.recompute_ratio = 1.0;
  EXPECT_LE(max_abs_difference(rig_.logits(request), rig_.full_logits(request)), kF16Bound);
}

// Row C 18: prompts and selections that end at a micro-batch's edge, or beside it.
TEST_F(EngineTest, MicroBatchEdgesDoNotShow) {
  EngineOptions options = tiny_options();
  options.micro_batch = 64;
  EngineRig small(tiny_model("llama"), options);
  for (const size_t n : {20U, 21U, 22U, 52U, 53U, 54U, 116U}) {
    const Request request = request_for("epic", {{"", words(n, 1)}, {"", words(64, 2)}}, 0.5);
    small.index(request.passages, AnchorKind::kLeadin);
    rig_.index(request.passages, AnchorKind::kLeadin);

    EXPECT_LE(max_abs_difference(small.logits(request), rig_.logits(request)), kF16Bound) << n;
    EXPECT_LE(max_abs_difference(small.full_logits(request), rig_.full_logits(request)), kF16Bound)
        << n;
  }
}

// The builder keeps its anchor in the engine's KV; a request in between takes it away.
TEST_F(EngineTest, BuilderThatOutlivesARequestStillBuildsTheSameChunks) {
  const std::vector<PassageText> texts = passages("AB");
  const Request request = request_for("reuse", texts);
  rig_.index(texts, AnchorKind::kLeadin);
  const std::vector<float> expected = rig_.logits(request);
  for (const std::filesystem::path& blob : rig_.blobs()) std::filesystem::remove(blob);
  rig_.restart();
  Engine& engine = rig_.engine();
  ChunkBuilder builder = engine.builder();
  const auto build = [&](const PassageText& p) {
    builder.build(engine.anchor(AnchorKind::kLeadin), engine.prompts().chunk_ids(p.title, p.text));
  };

  builder.build_preamble(engine.prompts().preamble_ids());
  build(texts[0]);
  engine.prefill(request_for("full", passages("CCC")));
  build(texts[1]);

  const Prefilled ours = rig_.prefill(request);
  EXPECT_EQ(matches_of(ours), "ii");
  EXPECT_EQ(ours.logits, expected);
}

TEST_F(EngineTest, WithoutAStoreEveryPolicyIsFull) {
  const TinyModel& tiny = tiny_model("llama");
  Engine engine(tiny.model, tiny.tokenizer, nullptr, tiny_options());
  const std::vector<float> full = rig_.full_logits(request_for("full", passages("AB")));
  for (const PolicyInfo& policy : policies()) {
    if (Engine::needs_scorer(policy.name, {})) continue;  // this engine has none
    const Request request = request_for(policy.name, passages("AB"));
    EXPECT_EQ(engine.prefill(request).logits, full) << policy.name;
    EXPECT_EQ(engine.answer(request).account.cached(), 0) << policy.name;
  }
}

TEST_F(EngineTest, CommitSaysWhetherEverythingWasStored) {
  rig_.restart_without_ram();
  for (const char* policy : {"reuse", "prefix"}) {
    const Request request =
        request_for(policy, passages(policy == std::string("reuse") ? "AB" : "CD"));
    const Prefilled stored = rig_.prefill(request);
    EXPECT_TRUE(rig_.engine().commit(request, stored)) << policy;
  }
  std::filesystem::remove_all(rig_.folder());
  std::ofstream(rig_.folder()) << "a file in the folder's place";
  for (const char* policy : {"reuse", "prefix"}) {
    const Request request = request_for(policy, passages("EF"));
    const Prefilled lost = rig_.prefill(request);
    EXPECT_FALSE(rig_.engine().commit(request, lost)) << policy;
  }
}

TEST_F(EngineTest, PromptThatIsTooLongLoadsNoMoreThanFits) {
  const std::vector<PassageText> texts = passages("ABCDEFGHIJ");
  rig_.index(texts, AnchorKind::kLeadin);
  EngineOptions small = tiny_options();
  small.n_ctx = 300;
  rig_.reopen(tiny_model("llama"), small);
  const uint64_t one = total_tokens(rig_.prefill(request_for("reuse", {texts[0]})).prompt);
  const uint64_t before = rig_.disk().hits;

  EXPECT_THROW(rig_.prefill(request_for("reuse", texts)), Error);

  EXPECT_LE(rig_.disk().hits - before, 1 + 300 / (one / 2));
  EXPECT_LT(rig_.disk().hits - before, texts.size());
}

TEST_F(EngineTest, StoreWithoutAModelDigestIsRefused) {
  EngineOptions nameless = tiny_options();
  nameless.model_digest.clear();
  EXPECT_THROW(rig_.reopen(tiny_model("llama"), nameless), Error);
}

TEST_F(EngineTest, StreamedTextIsTheAnswer) {
  Request request = request_for("full", passages("AB"));
  request.max_tokens = 24;
  std::string streamed;

  const Answer answer =
      rig_.engine().answer(request, [&](std::string_view text) { streamed += text; });

  EXPECT_EQ(streamed, answer.text);
  ASSERT_GT(answer.text.size(), 2U);
  request.stop = {answer.text.substr(answer.text.size() / 2, 1)};
  const Answer stopped = rig_.engine().answer(request);
  EXPECT_EQ(stopped.text, answer.text.substr(0, answer.text.find(request.stop[0])));
  EXPECT_EQ(stopped.finish_reason, "stop");
}

TEST_F(EngineTest, FullComparedWithItselfIsNoDistanceAway) {
  const Comparison same = compare_with_full(rig_.engine(), request_for("full", passages("AB")));
  EXPECT_LT(same.distance.mean_kl, 1e-9);
  EXPECT_EQ(same.distance.top1, 1.0);
  EXPECT_TRUE(same.same_answer);
  EXPECT_GT(same.distance.n_positions, 0);

  const Request reuse = request_for("reuse", passages("AB"));
  const Comparison first = compare_with_full(rig_.engine(), reuse);
  EXPECT_TRUE(rig_.engine().commit(reuse, first.prefilled));
  const Comparison other = compare_with_full(rig_.engine(), reuse);
  EXPECT_EQ(other.policy.account.recomputed, 0);
  EXPECT_GT(other.policy.account.independent, 0) << "commit stored what the first one missed";
  EXPECT_GT(other.distance.mean_kl, 1e-6);
}

TEST(DistanceBetween, IsTheMeanDivergenceInNats) {
  const std::vector<float> half = {0.0F, 0.0F, 1.0F, 0.0F};
  const std::vector<float> other = {std::log(3.0F), 0.0F, 1.0F, 0.0F};  // 3/4, 1/4

  const Distance d = distance_between(half, other, 2);

  EXPECT_NEAR(d.mean_kl, (0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25)) / 2, 1e-6);
  EXPECT_EQ(d.n_positions, 2);
  EXPECT_EQ(distance_between(half, half, 2).mean_kl, 0.0);
  const std::vector<float> broken = {NAN, 0.0F, 0.0F, 0.0F};
  EXPECT_TRUE(std::isnan(distance_between(half, broken, 2).mean_kl)) << "no perfect score";
  EXPECT_EQ(distance_between(half, std::vector<float>{0.0F, 1.0F, 1.0F, 0.0F}, 2).top1, 0.5);
}

}  // namespace
}  // namespace tessera
