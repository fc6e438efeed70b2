// The attention map of whole prompts on tiny random models, against what must hold of any causal
// attention.
#include "eval/attention_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

using testing::HasSubstr;

class AttentionMapTest : public testing::TestWithParam<std::string> {
 protected:
  AttentionMap map_of(const Request& request) {
    return attention_map(rig_.engine(), rig_.engine().prompt_of(request));
  }

  EngineRig rig_{GetParam()};
};

void expect_causal_row(const AttentionMap& map, size_t layer, size_t from) {
  double sum = 0;
  for (size_t to = 0; to < map.n_segments; ++to) {
    sum += map.at(layer, from, to);
    const bool is_behind = to > from;
    EXPECT_FALSE(is_behind && map.at(layer, from, to) != 0)
        << layer << ": " << from << " to " << to;
  }
  EXPECT_NEAR(sum, 1, 2e-3) << layer << ": " << from;
  EXPECT_GT(map.at(layer, from, from), 0);
}

TEST_P(AttentionMapTest, RowsSumToOneAndSeeNothingBehindThem) {
  const AttentionMap map = map_of(request_for("full", passages("ABCD")));

  ASSERT_EQ(map.n_segments, 6);
  ASSERT_EQ(map.n_layers, static_cast<size_t>(rig_.engine().decoder().config().n_layers));
  ASSERT_EQ(map.mass.size(), map.n_layers * 36);
  for (size_t layer = 0; layer < map.n_layers; ++layer) {
    for (size_t from = 0; from < map.n_segments; ++from) expect_causal_row(map, layer, from);
  }
}

// Against attention to every key, of one layer.
TEST_P(AttentionMapTest, IsTheMeanOfWhatRowsPayToKeys) {
  const Prompt prompt = rig_.engine().prompt_of(request_for("full", passages("ABC")));
  const AttentionMap map = attention_map(rig_.engine(), prompt);
  const TokenRange from = prompt.segments[3].range, to = prompt.segments[1].range;
  StepOptions options;
  options.attention_layers = {1};
  for (int32_t row = from.begin; row < from.end; ++row) options.attention_rows.push_back(row);
  std::vector<int32_t> positions(prompt.ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  Decoder& decoder = rig_.engine().decoder();
  WorkingKv kv(decoder.config(), total_tokens(prompt));

  const StepResult keys = decoder.prefill({&kv, prompt.ids, positions}, options);

  double sum = 0;
  for (size_t row = 0; row < options.attention_rows.size(); ++row) {
    for (int32_t key = to.begin; key < to.end; ++key)
      sum += keys.attention[row * static_cast<size_t>(keys.n_keys) + static_cast<size_t>(key)];
  }
  EXPECT_NEAR(map.at(1, 3, 1), sum / from.size(), 1e-3);
}

TEST_P(AttentionMapTest, LeavesTheEngineAsUsefulAsBefore) {
  const Request request = request_for("full", passages("ABC"));
  const std::vector<float> before = rig_.logits(request);
  const AttentionMap first = map_of(request_for("full", passages("DEFGH")));

  EXPECT_EQ(rig_.logits(request), before);
  EXPECT_EQ(map_of(request_for("full", passages("DEFGH"))).mass, first.mass);
}

TEST_P(AttentionMapTest, TwoPassagesAreRefused) {
  try {
    map_of(request_for("full", passages("AB")));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr("at least 3 are needed"));
  }
}

TEST_P(AttentionMapTest, StopsWhenAsked) {
  const Prompt prompt = rig_.engine().prompt_of(request_for("full", passages("ABC")));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(attention_map(rig_.engine(), prompt, stop.get_token()), Error);
}

INSTANTIATE_TEST_SUITE_P(Tiny, AttentionMapTest,
                         testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& i) { return i.param; });

TEST(AttentionMapOfShallowModel, IsRefused) {
  const TinyModel model(TinySpec{.arch = "llama", .n_layers = 2});
  EngineRig rig(model);
  const Prompt prompt = rig.engine().prompt_of(request_for("full", passages("ABC")));
  try {
    attention_map(rig.engine(), prompt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_THAT(error.what(), HasSubstr("2 layers"));
  }
}

// A whole run over tiny prompts: the parts fit together, and the numbers are shares.
TEST(AttentionSummaryOfTinyModel, GivesSharesForEveryLayer) {
  EngineRig rig("gemma3");
  const ModelConfig& config = rig.engine().decoder().config();
  AttentionSummary summary(static_cast<size_t>(config.n_layers));
  for (const auto& [order, rotated] : {std::pair("ABCDE", "EABCD"), std::pair("FGHAB", "BFGHA")}) {
    const auto map_of = [&](const char* letters) {
      const Request request = request_for("full", passages(letters));
      return attention_map(rig.engine(), rig.engine().prompt_of(request));
    };
    const AttentionMap in_order = map_of(order), turned = map_of(rotated);
    summary.add(in_order, &turned);
  }

  const AttentionReport report = summary.report();

  EXPECT_EQ(report.n_chunks, 6);
  EXPECT_EQ(report.n_compared, 4);
  ASSERT_EQ(report.layers.size(), static_cast<size_t>(config.n_layers));
  for (const LayerAttention& layer : report.layers) {
    const AttentionShares& s = layer.chunks;
    EXPECT_NEAR(s.preamble + s.self + s.predecessor + s.strongest_other + s.rest, 1, 2e-3);
    EXPECT_GE(s.sink_among, s.equal_among - 1e-9);
    EXPECT_TRUE(layer.sink_stays.has_value());
  }
  const AttentionReading reading = read_attention(report, config);
  EXPECT_EQ(config.layers[static_cast<size_t>(reading.sink_layer)].sliding_window, 0);
}

}  // namespace
}  // namespace tessera
