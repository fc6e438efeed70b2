#include "eval/attention_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// One layer, a list for each segment of what it pays to those up to itself.
AttentionMap map_of(const std::vector<std::vector<double>>& rows) {
  const size_t n = rows.size();
  AttentionMap out = {1, n, std::vector<double>(n * n)};
  for (size_t from = 0; from < n; ++from)
    std::copy(rows[from].begin(), rows[from].end(),
              out.mass.begin() + static_cast<ptrdiff_t>(from * n));
  return out;
}

// Four chunks; the sinks of chunks 2, 3 and 4 are chunks 1, 1 and 3. Powers of two, so that sums
// are exact.
AttentionMap four_chunks() {
  return map_of({{1},
                 {0.5, 0.5},
                 {0.5, 0.25, 0.25},
                 {0.5, 0.25, 0.125, 0.125},
                 {0.5, 0.0625, 0.0625, 0.125, 0.25},
                 {0.25, 0.25, 0.125, 0.0625, 0.0625, 0.25}});
}

LayerAttention layer_of(double predecessor_among, double predecessor_is_sink) {
  LayerAttention out;
  out.chunks.predecessor_among = predecessor_among;
  out.chunks.equal_among = 0.4;
  out.predecessor_is_sink = predecessor_is_sink;
  out.sink_agreement = 0.75;
  return out;
}

// Four layers; the picture of the paper unless a number is changed.
struct Picture {
  double early_predecessor = 0.6;
  double late_predecessor_is_sink = 0.25;
  double late_sink = 0.6;
  std::optional<double> late_stays = 0.75;
};

AttentionReading reading_of(const Picture& p) {
  AttentionReport report;
  report.stays_by_chance = 0.5;
  report.layers.assign(2, layer_of(p.early_predecessor, 0.9));
  report.layers.resize(4, layer_of(0.3, p.late_predecessor_is_sink));
  for (LayerAttention& layer : report.layers) {
    layer.chunks.sink_among = p.late_sink;
    layer.sink_stays = p.late_stays;
  }
  ModelConfig config;
  config.n_layers = 4;
  config.layers.resize(4);
  return read_attention(report, config);
}

ModelConfig config_of(std::initializer_list<int32_t> windows) {
  ModelConfig out;
  out.n_layers = static_cast<int32_t>(windows.size());
  for (const int32_t window : windows) out.layers.push_back({.rope = {}, .sliding_window = window});
  return out;
}

TEST(SegmentMeans, AverageTheRowsOfEachSegment) {
  const std::vector<Segment> segments = {{SegmentKind::kPreamble, {0, 1}},
                                         {SegmentKind::kQuery, {1, 3}}};
  const std::vector<float> rows = {1, 0, 0.5F, 0.5F, 0.25F, 0.75F,  // layer 0
                                   1, 0, 1,    0,    0,     1.0F};  // layer 1

  const AttentionMap map = segment_means(rows, segments, 2);

  EXPECT_EQ(map.n_layers, 2);
  EXPECT_EQ(map.n_segments, 2);
  EXPECT_EQ(map.mass, (std::vector<double>{1, 0, 0.375, 0.625, 1, 0, 0.5, 0.5}));
}

TEST(StrongestChunk, IsTheEarliestOfEqualOnes) {
  const AttentionMap map = four_chunks();
  EXPECT_EQ(strongest_chunk(map, 0, 4), 3);
  EXPECT_EQ(strongest_chunk(map, 0, 3), 1);
  EXPECT_EQ(strongest_chunk(map, 0, 3, 2), 2);
  EXPECT_EQ(strongest_chunk(map_of({{1}, {0, 1}, {0, 0, 1}, {0, 0.5, 0.5, 0}}), 0, 3), 1);
}

TEST(Shares, SumToOneAndTellPredecessorFromSink) {
  const AttentionShares query = shares_of(four_chunks(), 0, 5);
  EXPECT_EQ(query.preamble, 0.25);
  EXPECT_EQ(query.self, 0.25);
  EXPECT_EQ(query.predecessor, 0.0625);
  EXPECT_EQ(query.strongest_other, 0.25);
  EXPECT_EQ(query.rest, 0.1875);
  EXPECT_EQ(query.sink, 0.25);
  EXPECT_EQ(query.predecessor_among, 0.125);
  EXPECT_EQ(query.sink_among, 0.5);
  EXPECT_EQ(query.equal_among, 0.25);

  const AttentionShares fourth = shares_of(four_chunks(), 0, 4);
  EXPECT_EQ(fourth.sink, fourth.predecessor);
  EXPECT_EQ(fourth.predecessor_among, 0.5);
  EXPECT_EQ(fourth.strongest_other, 0.0625);
  EXPECT_EQ(fourth.rest, 0.0625);
}

// A window that ends before any earlier chunk.
TEST(Shares, AreNothingAmongChunksThatAreNotSeen) {
  const AttentionShares shares =
      shares_of(map_of({{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 0, 1}}), 0, 3);
  EXPECT_EQ(shares.self, 1);
  EXPECT_EQ(shares.sink_among, 0);
  EXPECT_EQ(shares.predecessor_among, 0);
}

TEST(AttentionSummary, AveragesOverChunksWithTwoEarlierOnes) {
  AttentionSummary summary(1);
  summary.add(four_chunks(), nullptr);

  const AttentionReport report = summary.report();

  EXPECT_EQ(report.n_prompts, 1);
  EXPECT_EQ(report.n_chunks, 2);
  const LayerAttention& layer = report.layers.front();
  EXPECT_EQ(layer.chunks.preamble, 0.5);
  EXPECT_EQ(layer.chunks.self, (0.125 + 0.25) / 2);
  EXPECT_EQ(layer.chunks.predecessor, 0.125);
  EXPECT_EQ(layer.chunks.sink, (0.25 + 0.125) / 2);
  EXPECT_EQ(layer.chunks.equal_among, (1.0 / 2 + 1.0 / 3) / 2);
  EXPECT_EQ(layer.query.sink_among, 0.5);
  EXPECT_EQ(layer.predecessor_is_sink, 0.5);  // of chunk 4, not of chunk 3
  EXPECT_EQ(layer.sink_agreement, 0.5);       // of chunk 3 with chunk 2, not of 4 with 3
  EXPECT_FALSE(layer.sink_stays);
  EXPECT_FALSE(report.stays_by_chance);
}

// Chunk 3 is the only one with two chunks that stand before it in both orders: segment 4 of the
// rotated prompt, whose old sink, chunk 1, is segment 2 there.
TEST(AttentionSummary, ComparesSinksByTheChunkTheyAre) {
  const std::vector<std::vector<double>> first_four = {{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};
  const auto rotated = [&](const std::vector<double>& row) {
    std::vector<std::vector<double>> rows = first_four;
    rows.push_back(row);
    rows.push_back({0, 0, 0, 0, 0, 1});
    return map_of(rows);
  };
  const AttentionMap same = rotated({0, 0.1, 0.4, 0.2, 0.3});
  const AttentionMap new_one_wins = rotated({0, 0.5, 0.3, 0.1, 0.1});
  const AttentionMap moved = rotated({0, 0.1, 0.2, 0.4, 0.3});
  AttentionSummary summary(1);
  for (const AttentionMap* other : {&same, &same, &new_one_wins, &moved})
    summary.add(four_chunks(), other);

  const AttentionReport report = summary.report();

  EXPECT_EQ(report.n_compared, 4);
  EXPECT_EQ(report.layers.front().sink_stays, 0.75);
  EXPECT_EQ(report.stays_by_chance, 0.5);
}

TEST(AttentionSummary, KeepsMapsOfEqualLengthApart) {
  const AttentionMap three = map_of({{1}, {0, 1}, {0, 0, 1}, {0.5, 0, 0, 0.5}, {1, 0, 0, 0, 0}});
  AttentionMap other = three;
  const size_t row = 3 * other.n_segments;
  other.mass[row] = 0;  // chunk 3 to the preamble
  other.mass[row + 3] = 1;
  AttentionSummary summary(1);
  for (const AttentionMap& map : {three, four_chunks(), other}) summary.add(map, nullptr);

  const AttentionReport report = summary.report();

  ASSERT_EQ(report.maps.size(), 2);
  EXPECT_EQ(report.maps[0].n_prompts, 2);
  EXPECT_EQ(report.maps[0].map.n_segments, 5);
  EXPECT_EQ(report.maps[0].map.at(0, 3, 0), 0.25);
  EXPECT_EQ(report.maps[0].map.at(0, 3, 3), 0.75);
  EXPECT_EQ(report.maps[1].map.mass, four_chunks().mass);
}

TEST(TurnLayer, IsWhereThePredecessorStopsToLead) {
  const auto turn = [](const std::vector<double>& shares) { return turn_layer(shares); };
  EXPECT_EQ(turn({0.9, 0.8, 0.4, 0.3, 0.2}), 2);
  EXPECT_EQ(turn({0.9, 0.8, 0.7, 0.6}), -1);
  EXPECT_EQ(turn({0.4, 0.9, 0.9, 0.3, 0.2}), 3);  // low once, but high on average behind it
  EXPECT_EQ(turn({0.4, 0.6, 0.3, 0.2}), 0);       // and not where it is high once
  EXPECT_EQ(turn({0.5, 0.5, 0.5}), -1);           // half is no minority
  EXPECT_EQ(turn({0.9, 0.9, 0.1}), -1);           // nothing follows the last layer
}

TEST(SinkLayer, IsTheTurnOrTheMiddleThatSeesTheWholePrompt) {
  const auto all_global = config_of({0, 0, 0, 0, 0, 0}).layers;
  EXPECT_EQ(sink_layer(2, all_global), 2);
  EXPECT_EQ(sink_layer(0, all_global), 0);
  EXPECT_EQ(sink_layer(-1, all_global), 3);
  const auto windows = config_of({512, 512, 0, 512, 512, 0, 512}).layers;
  EXPECT_EQ(sink_layer(2, windows), 2);
  EXPECT_EQ(sink_layer(3, windows), 5);
  EXPECT_EQ(sink_layer(6, windows), 5);  // none behind it
  EXPECT_EQ(sink_layer(-1, windows), 5);
  EXPECT_EQ(sink_layer(1, config_of({9, 9, 9}).layers), 1);  // none at all
}

TEST(Verdict, FollowsFromTheTwoHalves) {
  const AttentionReading as_in_paper = reading_of({});
  EXPECT_EQ(as_in_paper.turn_layer, 2);
  EXPECT_EQ(as_in_paper.sink_layer, 2);
  EXPECT_DOUBLE_EQ(as_in_paper.early_predecessor, 0.6);
  EXPECT_DOUBLE_EQ(as_in_paper.late_other, 0.75);
  EXPECT_DOUBLE_EQ(as_in_paper.late_sink, 0.6);
  EXPECT_DOUBLE_EQ(as_in_paper.late_agreement, 0.75);
  EXPECT_THAT(verdict_text(as_in_paper), StartsWith("The paper's picture holds: in layers 0 to 1"));
  EXPECT_THAT(verdict_text(as_in_paper), HasSubstr("for 0.750 of them (0.500 by chance): a sink."));

  const auto verdict = [](const Picture& picture) { return verdict_text(reading_of(picture)); };
  EXPECT_THAT(verdict({.early_predecessor = 0.45}), HasSubstr("holds in part: "));  // 1.1 x equal
  EXPECT_THAT(verdict({.late_predecessor_is_sink = 0.5}), HasSubstr("holds in part: "));
  EXPECT_THAT(verdict({.early_predecessor = 0.45, .late_predecessor_is_sink = 0.5}),
              HasSubstr("does not hold: "));
}

// The strongest of several is above an equal share, and now and then the same, by chance alone.
TEST(Verdict, SinkMustBeClearlyAboveChance) {
  EXPECT_TRUE(reading_of({}).late_has_sink());
  EXPECT_FALSE(reading_of({.late_sink = 0.45}).late_has_sink());   // 1.1 x equal
  EXPECT_FALSE(reading_of({.late_stays = 0.65}).late_has_sink());  // 0.5 by chance
  EXPECT_FALSE(reading_of({.late_stays = std::nullopt}).late_has_sink());
  EXPECT_THAT(verdict_text(reading_of({.late_stays = std::nullopt})), HasSubstr("not compared"));
}

TEST(Verdict, NothingTurnsWhereEarlyLayersAreNotLocal) {
  const AttentionReading reading = reading_of({.early_predecessor = 0.45});

  EXPECT_EQ(reading.turn_layer, -1);
  EXPECT_EQ(reading.sink_layer, 2);  // the middle
  EXPECT_EQ(reading_of({.late_predecessor_is_sink = 0.5}).turn_layer, -1);
}

TEST(AttentionChecks, RefuseWhatIsTooSmall) {
  EXPECT_THROW(check_layers_to_map(config_of({0, 0})), Error);
  EXPECT_NO_THROW(check_layers_to_map(config_of({0, 0, 0})));

  Prompt prompt;
  prompt.segments = {{SegmentKind::kPreamble, {0, 1}},
                     {SegmentKind::kChunk, {1, 2}},
                     {SegmentKind::kChunk, {2, 3}},
                     {SegmentKind::kQuery, {3, 4}}};
  try {
    check_chunks_to_map(prompt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr("2 passages"));
  }
}

}  // namespace
}  // namespace tessera
