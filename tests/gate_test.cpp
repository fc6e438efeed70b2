// The gate's checks on tiny random models: what is right passes, and each fault that is planted
// where K enters the working KV is seen.
#include "eval/gate.h"

#include <gguf.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "eval/metrics.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

class GateOnTiny : public testing::TestWithParam<std::string> {
 protected:
  double moved_k() { return moved_k_error(rig_.engine(), words(400, 1), {}); }

  EngineRig rig_{GetParam()};
};

TEST_P(GateOnTiny, MovedKEqualsComputedK) { EXPECT_LE(moved_k(), GateBounds::kMovedK); }

TEST_P(GateOnTiny, EveryPlantedFaultOfLoadingIsSeen) {
  for (const LoadFault fault :
       {LoadFault::kWrongPairing, LoadFault::kWrongBase, LoadFault::kOffByOne}) {
    rig_.engine().decoder().plant_fault(fault);
    EXPECT_GT(moved_k(), 10 * GateBounds::kMovedK) << static_cast<int>(fault);
  }
  rig_.engine().decoder().plant_fault(LoadFault::kNone);
  EXPECT_LE(moved_k(), GateBounds::kMovedK);
}

TEST_P(GateOnTiny, EverythingRecomputedIsFullPrefill) {
  const Sample sample = {"one", "which river is in the city", {"the river"}, passages("ABC")};

  const RatioOne found = ratio_one(rig_.engine(), sample, {});

  EXPECT_LE(found.max_delta, static_cast<double>(kF16Bound));
  EXPECT_EQ(found.top1, 1.0);
}

// By hand: the likelihood of a text is the same read at once or in parts of 128 rows, and that of
// the second half behind the first is part of it.
TEST_P(GateOnTiny, ReadingIsTheMeanOverAllTokens) {
  const std::string text = words(300, 2);
  const std::vector<int32_t> front = rig_.engine().prompts().preamble_ids();
  std::vector<int32_t> ids = rig_.engine().prompts().text_ids(text);
  ids.resize(std::min<size_t>(ids.size(), 512));
  std::vector<int32_t> all = front;
  all.insert(all.end(), ids.begin(), ids.end());
  StepOptions options;
  options.logit_rows = positions_from(static_cast<int32_t>(front.size()) - 1, ids.size());
  Engine& engine = rig_.engine();
  engine.kv().clear();
  const std::vector<float> logits =
      engine.decoder().prefill({&engine.kv(), all, positions_from(0, all.size())}, options).logits;

  const Reading found = reading_of(engine, text, {});

  EXPECT_NEAR(found.nats, mean_nll(logits, ids, engine.decoder().config().n_vocab), 1e-3);
}

// A file that says another base is the oracle.
TEST(RopeBase, OtherBaseOverTheSameWeightsIsThatOfAFileThatSaysSo) {
  const TinyModel& one = tiny_model("llama");
  const float base = one.model->config().layers.front().rope.base;
  const TinyModel other(TinySpec{.arch = "llama", .edit_metadata = [&](gguf_context* file) {
                                   gguf_set_val_f32(file, "llama.rope.freq_base", 10 * base);
                                 }});
  const std::vector<int32_t> ids = random_ids(200, one.model->config().n_vocab, 1);
  const auto logits_of = [&](const std::shared_ptr<const Model>& model) {
    Decoder decoder(model, kTestThreads);
    WorkingKv kv(model->config(), 200);
    StepOptions options;
    options.logit_rows = {199};
    return decoder.prefill({&kv, ids, positions_from(0, 200)}, options).logits;
  };
  const std::vector<float> wanted = logits_of(other.model);

  EXPECT_EQ(max_abs_difference(logits_of(Model::with_rope_base(one.model, 10)), wanted), 0.0F);
  EXPECT_GT(max_abs_difference(logits_of(one.model), wanted), 1e-3F);
}

INSTANTIATE_TEST_SUITE_P(Families, GateOnTiny, testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace tessera
