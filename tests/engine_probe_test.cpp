// The evidence that policies read, each against its definition, on tiny random models.
#include "engine/probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "support/engine_rig.h"

namespace tessera {
namespace {

class ProbeTest : public testing::TestWithParam<std::string> {
 protected:
  EngineRig rig_{GetParam()};
};

// The evidence of CacheBlend against its definition: V at layer 1 of full prefill, less the stored.
TEST_P(ProbeTest, ValueDeviationIsTheDistanceFromFullPrefill) {
  rig_.index(passages("AB"), AnchorKind::kLeadin);
  Prefilled ours = rig_.prefill(request_for("reuse", passages("AB")));
  Decoder& decoder = rig_.engine().decoder();
  const ProbeResult probe = run_probe(Evidence::kValueDeviation, {},
                                      {decoder, rig_.engine().kv(), ours.prompt, ours.found}, {});

  StepOptions options;
  options.kv_layer = 1;
  std::vector<int32_t> positions(ours.prompt.ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  WorkingKv kv(decoder.config(), 1024);
  const StepResult full = decoder.prefill({&kv, ours.prompt.ids, positions}, options);

  const auto width = static_cast<size_t>(decoder.config().kv_dim());
  for (size_t i = 0; i < ours.prompt.segments.size(); ++i) {
    const Segment& s = ours.prompt.segments[i];
    for (int32_t at = s.range.begin; at < s.range.end; ++at) {
      double expected = 0;
      for (size_t d = 0; is_approximate(s) && d < width; ++d) {
        _Float16 stored = 0;
        const auto token = static_cast<size_t>(at - s.range.begin);
        std::memcpy(&stored, ours.found[i].chunk->v(1).data() + 2 * (token * width + d), 2);
        const double now = full.v[static_cast<size_t>(at) * width + d];
        expected += (now - static_cast<float>(stored)) * (now - static_cast<float>(stored));
      }
      // The preamble was loaded, so the context itself is right to f16 only.
      ASSERT_NEAR(probe.score[static_cast<size_t>(at)], expected, 1e-4 + 1e-2 * expected) << at;
    }
  }
}

TEST_P(ProbeTest, QueryAttentionIsSpreadOverThePromptAndSumsToOne) {
  rig_.index(passages("AB"), AnchorKind::kLeadin);
  Prefilled ours = rig_.prefill(request_for("reuse", passages("AB")));

  const ProbeResult probe =
      run_probe(Evidence::kQueryAttention, {.share = 0.5},
                {rig_.engine().decoder(), rig_.engine().kv(), ours.prompt, ours.found}, {});

  ASSERT_EQ(probe.score.size(), ours.prompt.ids.size());
  EXPECT_NEAR(std::accumulate(probe.score.begin(), probe.score.end(), 0.0), 1.0, 2e-3);
  EXPECT_GT(*std::min_element(probe.score.begin(), probe.score.end() - 1), 0.0F);
  EXPECT_LE(probe.rows, static_cast<double>(ours.prompt.segments.back().range.size()));
}

TEST_P(ProbeTest, LongQuestionIsProbedByItsLastRows) {
  rig_.index(passages("AB"), AnchorKind::kLeadin);
  Request request = request_for("query_aware", passages("AB"), 0.2);
  request.question = words(300, 4);

  const Prefilled ours = rig_.prefill(request);

  EXPECT_EQ(matches_of(ours), "ii");
  const Account account = account_of(ours.plan);
  EXPECT_EQ(account.recomputed, recompute_budget(0.2, account.independent + account.recomputed));
}

// The control: nothing deviates where the chunk already stands behind its own tokens.
TEST_P(ProbeTest, KvDeviationIsNothingForTheFirstChunkBehindItsAnchor) {
  Request request = request_for("oracle", passages("AB"));
  request.anchor = AnchorKind::kPreamble;
  rig_.index(request.passages, AnchorKind::kPreamble);
  Prefilled ours = rig_.prefill(request);
  ours.prompt.segments[1].match = Match::kIndependent;  // as if it had been loaded from elsewhere

  const ProbeResult probe =
      run_probe(Evidence::kKvDeviation, {},
                {rig_.engine().decoder(), rig_.engine().kv(), ours.prompt, ours.found}, {});

  const TokenRange first = ours.prompt.segments[1].range, second = ours.prompt.segments[2].range;
  const auto highest = [&](TokenRange r) {
    return *std::max_element(probe.score.begin() + r.begin, probe.score.begin() + r.end);
  };
  EXPECT_LT(highest(first), 1e-3F);
  EXPECT_GT(highest(second), 1e-2F);
}

INSTANTIATE_TEST_SUITE_P(Tiny, ProbeTest, testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace tessera
