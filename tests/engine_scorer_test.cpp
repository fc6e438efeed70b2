// The scorer beside the target, and the policies that read it, on tiny random models. The scorer is
// of another family, with another kind of vocabulary where there is one.
#include "engine/scorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "support/engine_rig.h"
#include "text/align.h"

namespace tessera {
namespace {

constexpr LayerPart kThird = {.share = 1.0 / 3};

class ScorerTest : public testing::TestWithParam<std::string> {
 protected:
  Request request(std::string_view policy = "speccache") const {
    return request_for(policy, texts_, 0.2);
  }
  Scorer& scorer() { return rig_.scorer(); }

  std::vector<PassageText> texts_ = passages("ABC");
  EngineRig rig_{GetParam()};
};

// Mean over the last third of the layers of the L2 norm of each row's residual, layer by layer.
std::vector<double> norms_by_hand(const TinyModel& tiny, const std::vector<int32_t>& ids,
                                  LayerRange layers) {
  Decoder decoder(tiny.model, 1);
  const auto width = static_cast<size_t>(decoder.config().embed_dim);
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<double> norms(ids.size(), 0.0);
  for (int32_t layer = layers.begin; layer < layers.end; ++layer) {
    WorkingKv kv(decoder.config(), 1024);
    StepOptions options;
    options.layers = {0, layer + 1};
    options.return_hidden = true;
    const std::vector<float> hidden = decoder.prefill({&kv, ids, positions}, options).hidden;
    for (size_t row = 0; row < ids.size(); ++row) {
      double sum = 0;
      for (size_t d = 0; d < width; ++d)
        sum += double(hidden[row * width + d]) * hidden[row * width + d];
      norms[row] += std::sqrt(sum) / layers.size();
    }
  }
  return norms;
}

TEST_P(ScorerTest, OnlineNormsAreThoseOfThePromptReadAsAWhole) {
  const TinyModel& tiny = scorer_beside(GetParam());
  const Scorer::Result rated =
      scorer().read(request(), Evidence::kScorerNorms, kThird, std::stop_token());

  const PromptBuilder prompts(tiny.tokenizer, {});
  std::vector<int32_t> ids = prompts.preamble_ids();
  const LayerRange layers = layers_of(kThird, tiny.model->config().n_layers);
  for (const PassageText& p : texts_) {
    const std::vector<int32_t> chunk = prompts.chunk_ids(p.title, p.text);
    ids.insert(ids.end(), chunk.begin(), chunk.end());
  }
  const std::vector<double> expected = norms_by_hand(tiny, ids, layers);
  size_t at = prompts.preamble_ids().size();
  ASSERT_EQ(rated.chunks.size(), 3U);
  for (const ChunkScores& chunk : rated.chunks) {
    ASSERT_EQ(chunk.bytes.size(), chunk.value.size());
    for (const float value : chunk.value) {
      ASSERT_NEAR(value, expected[at], 1e-3 * expected[at]);
      ++at;
    }
  }
  EXPECT_EQ(at, ids.size());
  EXPECT_DOUBLE_EQ(rated.rows, static_cast<double>(ids.size())) << "the question is not computed";
}

TEST_P(ScorerTest, LayersAboveTheLastOneNeededAreNotComputed) {
  const LayerPart low = {.share = 1, .first = 0, .last = 0};
  const Scorer::Result all =
      scorer().read(request(), Evidence::kScorerNorms, kThird, std::stop_token());
  const Scorer::Result cut =
      scorer().read(request(), Evidence::kScorerNorms, low, std::stop_token());

  const int32_t n_layers = scorer_beside(GetParam()).model->config().n_layers;
  EXPECT_NEAR(cut.rows * n_layers, all.rows, 1e-6);
}

TEST_P(ScorerTest, StoredNormsAreThoseOfTheChunkAloneAndAreKept) {
  const Scorer::Result made = scorer().stored(texts_, {true, false, true}, kThird, {});
  const Scorer::Result again = scorer().stored(texts_, {true, false, true}, kThird, {});

  EXPECT_GT(made.rows, 0.0);
  EXPECT_EQ(again.rows, 0.0);
  EXPECT_EQ(made.chunks, again.chunks);
  EXPECT_TRUE(made.chunks[1].value.empty());
  const TinyModel& tiny = scorer_beside(GetParam());
  const PromptBuilder prompts(tiny.tokenizer, {});
  std::vector<int32_t> ids = prompts.preamble_ids();
  const size_t n_before = ids.size();
  const std::vector<int32_t> chunk = prompts.chunk_ids(texts_[2].title, texts_[2].text);
  ids.insert(ids.end(), chunk.begin(), chunk.end());
  const std::vector<double> expected =
      norms_by_hand(tiny, ids, layers_of(kThird, tiny.model->config().n_layers));
  for (size_t i = 0; i < chunk.size(); ++i) {
    ASSERT_NEAR(made.chunks[2].value[i], expected[n_before + i], 1e-3 * expected[n_before + i]);
  }
}

// With KV of its own the scorer computes the question only. The first chunk stands where it stood
// when it was stored; behind it the two readings differ, as they do for the target.
TEST_P(ScorerTest, OwnChunkKvLeavesOnlyTheQuestionToCompute) {
  Scorer& with_kv = rig_.scorer_with_kv();
  for (const PassageText& p : texts_) with_kv.build(p, Evidence::kScorerAttention, kThird, {});

  const Scorer::Result whole =
      scorer().read(request(), Evidence::kScorerAttention, {.share = 0.5}, {});
  const Scorer::Result loaded =
      with_kv.read(request(), Evidence::kScorerAttention, {.share = 0.5}, {});

  EXPECT_LT(loaded.rows, whole.rows / 2);
  double sum = 0;
  for (size_t c = 0; c < 3; ++c) {
    ASSERT_EQ(loaded.chunks[c].bytes.size(), whole.chunks[c].bytes.size());
    sum += std::accumulate(loaded.chunks[c].value.begin(), loaded.chunks[c].value.end(), 0.0);
  }
  EXPECT_GT(sum, 0.0);
  EXPECT_LT(sum, 1.0);
}

TEST_P(ScorerTest, SpecCacheSpendsItsBudgetUnderBothSourcesOfScores) {
  rig_.index(texts_, AnchorKind::kLeadin);
  for (const bool online : {false, true}) {
    Request r = request();
    r.policy_options.online_scores = online;
    const Prefilled first = rig_.prefill(r);
    const Prefilled second = rig_.prefill(r);

    const Account account = account_of(first.plan);
    EXPECT_EQ(account.recomputed, recompute_budget(0.2, account.independent + account.recomputed));
    EXPECT_EQ(first.plan.rows, second.plan.rows);
    EXPECT_EQ(first.logits, second.logits);
    EXPECT_GT(first.scorer_rows, 0.0);
    EXPECT_EQ(second.scorer_rows, online ? first.scorer_rows : 0.0);
  }
}

// The whole way of DESIGN.md section 6.1, step by step, without span completion: the highest norms
// among the scorer's tokens, carried over by bytes.
TEST_P(ScorerTest, WithoutSpansTheHighestNormsOfTheScorerAreRecomputed) {
  rig_.index(texts_, AnchorKind::kLeadin);
  Request r = request();
  r.policy_options.spans.reading = SpanReading::kNone;
  const Prefilled got = rig_.prefill(r);

  const Scorer::Result rated = scorer().stored(texts_, {true, true, true}, kThird, {});
  std::vector<std::pair<float, int32_t>> by_score;  // of the target's positions
  size_t passage = 0;
  for (const Segment& s : got.plan.segments) {
    if (s.kind != SegmentKind::kChunk) continue;
    const TokenizedText own = rig_.engine().prompts().chunk_tokens("", texts_[passage].text);
    const ChunkScores& scores = rated.chunks[passage++];
    for (size_t t = 0; t < own.ids.size(); ++t) {
      float best = 0;
      for (size_t u = 0; u < scores.value.size(); ++u) {
        if (std::max(own.bytes[t].begin, scores.bytes[u].begin) <
            std::min(own.bytes[t].end, scores.bytes[u].end))
          best = std::max(best, scores.value[u]);
      }
      by_score.emplace_back(-best, s.range.begin + static_cast<int32_t>(t));
    }
  }
  std::sort(by_score.begin(), by_score.end());
  const Account account = account_of(got.plan);
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < account.recomputed; ++i)
    expected.push_back(by_score[static_cast<size_t>(i)].second);
  std::sort(expected.begin(), expected.end());
  std::vector<int32_t> recomputed;
  for (const int32_t row : got.plan.rows) {
    if (row < got.plan.segments.back().range.begin) recomputed.push_back(row);
  }
  EXPECT_EQ(recomputed, expected);
}

TEST_P(ScorerTest, QueryAwareTakesTheScorersAttentionWhenAsked) {
  rig_.index(texts_, AnchorKind::kLeadin);
  Request r = request("query_aware");
  r.policy_options.scorer_attention = true;
  const Prefilled got = rig_.prefill(r);

  const Account account = account_of(got.plan);
  EXPECT_EQ(account.recomputed, recompute_budget(0.2, account.independent + account.recomputed));
  EXPECT_GT(got.scorer_rows, 0.0);
  EXPECT_EQ(got.probe_rows, 0.0) << "the target is not looked at";
}

TEST_P(ScorerTest, AnswerKeepsTheScoresOfPassagesThatWereNew) {
  const Request r = request();
  rig_.engine().answer(r);
  EXPECT_EQ(rig_.scores().stats().entries, 3U);
  EXPECT_EQ(matches_of(rig_.prefill(r)), "iii");
  EXPECT_EQ(rig_.prefill(r).scorer_rows, 0.0);
}

TEST_P(ScorerTest, WithoutAScorerThePolicyIsRefused) {
  const TinyModel& tiny = tiny_model(GetParam());
  Engine alone(tiny.model, tiny.tokenizer, &rig_.store(), tiny_options());
  EXPECT_THROW(alone.prefill(request()), Error);
  Request attention = request("query_aware");
  attention.policy_options.scorer_attention = true;
  EXPECT_THROW(alone.prefill(attention), Error);
  EXPECT_NO_THROW(alone.prefill(request("query_aware")));
}

TEST_P(ScorerTest, StopEndsTheScorer) {
  rig_.index(texts_, AnchorKind::kLeadin);
  std::stop_source source;
  source.request_stop();
  for (const bool online : {false, true}) {
    Request r = request();
    r.policy_options.online_scores = online;
    EXPECT_THROW(rig_.engine().prefill(r, source.get_token()), Error);
  }
  EXPECT_NO_THROW(rig_.prefill(request()));
}

// The reference code's mask lets a recomputed token see later ones: the answer changes, and at
// ratio 1, where rows are the last ones in truth, it does not.
TEST_P(ScorerTest, BottomRightMaskOfCacheBlendIsCausalOnlyAtRatioOne) {
  rig_.index(texts_, AnchorKind::kLeadin);
  const auto logits = [&](double ratio, bool bottom_right) {
    Request r = request_for("cacheblend", texts_, ratio);
    r.policy_options.bottom_right_mask = bottom_right;
    return rig_.logits(r);
  };
  EXPECT_GT(max_abs_difference(logits(0.3, true), logits(0.3, false)), 1e-3F);
  EXPECT_LE(max_abs_difference(logits(1, true), logits(1, false)), kF16Bound);
}

INSTANTIATE_TEST_SUITE_P(Tiny, ScorerTest, testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace tessera
