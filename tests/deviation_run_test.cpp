// Deviation of reused KV on tiny random models, against the score of the oracle policy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "engine/probe.h"
#include "eval/deviation.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

using testing::HasSubstr;

class DeviationRun : public testing::TestWithParam<std::string> {
 protected:
  std::vector<PromptDeviation> measure(std::string_view order,
                                       const std::vector<AnchorKind>& anchors) {
    return measure_deviation(rig_.engine(), request_for("reuse", passages(order)), "q", anchors,
                             {});
  }

  EngineRig rig_{GetParam()};
};

// The oracle adds up over layers what is averaged over tokens here.
TEST_P(DeviationRun, AgreesWithTheOracle) {
  const PromptDeviation out = measure("ABC", {AnchorKind::kLeadin}).front();

  Request request = request_for("oracle", passages("ABC"));
  request.anchor = AnchorKind::kLeadin;
  Prefilled ours = rig_.prefill(request);
  const ProbeResult probe =
      run_probe(Evidence::kKvDeviation, {},
                {rig_.engine().decoder(), rig_.engine().kv(), ours.prompt, ours.found}, {});
  const int32_t begin = ours.prompt.segments[2].range.begin;
  const int32_t end = ours.prompt.segments[3].range.end;
  const double scores =
      std::accumulate(probe.score.begin() + begin, probe.score.begin() + end, 0.0);
  double errors = 0;
  for (const MatrixDeviation& matrix : out.matrices) errors += matrix.error;
  EXPECT_NEAR(errors * (end - begin), scores, 1e-3 * scores);
  EXPECT_GT(scores, 0);
}

// K and V of layer 0 follow from the token alone.
TEST_P(DeviationRun, BeginsBehindTheFirstLayer) {
  for (const PromptDeviation& out :
       measure("ABC", {AnchorKind::kBare, AnchorKind::kPreamble, AnchorKind::kLeadin})) {
    ASSERT_GE(out.matrices.size(), 4U);
    EXPECT_LT(out.matrices[0].error, 1e-5);
    EXPECT_LT(out.matrices[1].error, 1e-5);
    EXPECT_GT(out.matrices[3].error, 1e-6);
    EXPECT_LT(out.matrices[3].cosine, 1);
  }
}

TEST_P(DeviationRun, NeedsAChunkBehindTheFirst) {
  try {
    measure("A", {AnchorKind::kBare});
    FAIL() << "one passage was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr("at least 2"));
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, DeviationRun, testing::Values("llama", "gemma3"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace tessera
