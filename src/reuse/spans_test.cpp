#include "reuse/spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

using testing::ElementsAre;

// Numbers of the `n` tokens that are preferred, ascending.
std::vector<int32_t> best(const std::vector<float>& preference, size_t n) {
  std::vector<int32_t> order(preference.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return preference[static_cast<size_t>(a)] > preference[static_cast<size_t>(b)];
  });
  order.resize(n);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int32_t> chosen(const std::vector<float>& value, const std::vector<TokenRange>& runs,
                            int32_t budget, const SpanOptions& options) {
  const std::vector<float> preference = span_preference(value, runs, budget, options);
  const auto n = std::count_if(preference.begin(), preference.end(), [](float p) { return p > 0; });
  return best(preference,
              std::min(static_cast<size_t>(n), static_cast<size_t>(span_limit(options, budget))));
}

// Two plateaus: tokens 2-6 near 0.8 of the range with a dip at 5, and a single peak at 9.
const std::vector<float> kValue = {0.0F, 0.1F, 8.0F, 8.2F, 8.1F, 7.0F, 8.3F, 0.2F, 0.0F, 10.0F};
const std::vector<TokenRange> kWhole = {{0, 10}};

TEST(Spans, NoneTakesTheHighestScores) {
  EXPECT_THAT(chosen(kValue, kWhole, 4, {.reading = SpanReading::kNone}), ElementsAre(3, 4, 6, 9));
}

// DESIGN.md section 6.1, step 3: cutting the completed set by score gives back the highest scores.
TEST(Spans, LiteralReadingGivesBackTheHighestScores) {
  for (int32_t budget = 0; budget <= 10; ++budget) {
    EXPECT_EQ(chosen(kValue, kWhole, budget, {.reading = SpanReading::kLiteral}),
              chosen(kValue, kWhole, budget, {.reading = SpanReading::kNone}))
        << budget;
  }
}

TEST(Spans, LargerReadingCompletesTheDipOfASpan) {
  // Seeds 2, 3, 4, 6, 9: four of the span 2-6, which is then whole; a sixth place is allowed.
  EXPECT_THAT(chosen(kValue, kWhole, 5, {.reading = SpanReading::kLarger}),
              ElementsAre(2, 3, 4, 5, 6, 9));
}

TEST(Spans, SeededReadingCompletesWithinTheBudget) {
  // Six places: ceil(5.1) seeds are 2, 3, 4, 6, 9 and 5.
  EXPECT_THAT(chosen(kValue, kWhole, 6, {}), ElementsAre(2, 3, 4, 5, 6, 9));
  // Five: ceil(4.25) seeds leave out the dip, which completion then adds: one of the six goes, by
  // the mean of its span, lowest first.
  const std::vector<int32_t> five = chosen(kValue, kWhole, 5, {});
  EXPECT_THAT(five, ElementsAre(2, 3, 4, 6, 9));
}

TEST(Spans, CoverDecidesWhetherASpanIsCompleted) {
  const SpanOptions strict = {.reading = SpanReading::kLarger, .cover = 0.9};
  // Not completed, so the sixth place that the reading allows stays empty.
  EXPECT_THAT(chosen(kValue, kWhole, 5, strict), ElementsAre(2, 3, 4, 6, 9));
}

TEST(Spans, DoNotReachOverTheEndOfARun) {
  // The same plateau cut in two: seeds 0, 1, 2 of the first run complete token 3, not the second.
  const std::vector<float> value = {9.0F, 9.1F, 9.2F, 8.0F, 8.0F, 8.0F, 0.0F, 0.0F};
  const SpanOptions options = {.reading = SpanReading::kLarger, .cover = 0.7};
  // Budget 3: limit 4.
  EXPECT_THAT(chosen(value, {{0, 4}, {4, 8}}, 3, options), ElementsAre(0, 1, 2, 3));
}

TEST(Spans, AreNoLongerThanAllowed) {
  // All alike but the last: spans of two, so only whole pairs are completed.
  const std::vector<float> value(9, 5.0F);
  const SpanOptions options = {.reading = SpanReading::kLarger, .cover = 0.5, .max_tokens = 2};
  EXPECT_THAT(chosen(value, {{0, 9}}, 5, options), ElementsAre(0, 1, 2, 3, 4, 5));
}

// Beside 1000 all the others lie at the foot of the scale, where a step from one to the next is
// large relative to it; on the scale of their own they are a plateau.
TEST(Spans, ClippingGivesTheOthersAScaleOfTheirOwn) {
  const std::vector<float> value = {1.0F, 8.0F, 8.1F, 7.0F, 8.2F, 1000.0F};
  const SpanOptions clipped = {.reading = SpanReading::kLarger, .clip_quantile = 0.8};
  // Budget 4: the seeds are 1, 2, 4 and the outlier. Clipped, 1 to 5 are one span.
  EXPECT_THAT(chosen(value, {{0, 6}}, 4, clipped), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Spans, DegenerateInputs) {
  EXPECT_TRUE(span_preference({}, {}, 3, {}).empty());
  EXPECT_THAT(span_preference(std::vector<float>{1.0F, 2.0F}, {}, 1, {}), ElementsAre(0.0F, 0.0F));
  for (const SpanReading reading :
       {SpanReading::kNone, SpanReading::kLiteral, SpanReading::kSeeded, SpanReading::kLarger}) {
    for (const float same : {0.0F, -1.0F, 5.0F}) {
      const std::vector<float> value(5, same);
      for (int32_t budget = 0; budget <= 5; ++budget) {
        const std::vector<float> p =
            span_preference(value, {{{0, 5}}}, budget, {.reading = reading});
        EXPECT_EQ(p.size(), 5U);
        if (reading != SpanReading::kLarger) {
          EXPECT_GT(*std::min_element(p.begin(), p.end()), 0.0F);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
