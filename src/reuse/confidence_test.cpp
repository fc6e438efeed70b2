#include "reuse/confidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

TEST(Certainty, OfEqualLayersThereIsNoDivergence) {
  const std::vector<float> logits = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  const Certainty c = certainty_of(logits, 3);
  EXPECT_NEAR(c.kl.value(), 0, 1e-12);
  EXPECT_GT(c.entropy, 0);
}

TEST(Certainty, EntropyOfEvenLogitsIsTheLogarithmOfTheirNumber) {
  const std::vector<float> logits(8, 5.0F);
  EXPECT_NEAR(certainty_of(logits, 4).entropy, std::log(4), 1e-9);
  EXPECT_FALSE(certainty_of(std::span(logits).first(4), 4).kl);
}

TEST(Certainty, DivergenceIsOfEachLayerFromTheLast) {
  // Layers give (3/4, 1/4) and (1/4, 3/4), the last one (1/2, 1/2).
  const float l = std::log(3.0F);
  const std::vector<float> logits = {l, 0, 0, l, 0, 0};
  const double each = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  const Certainty c = certainty_of(logits, 2);
  EXPECT_NEAR(c.kl.value(), each, 1e-6);
  EXPECT_NEAR(c.entropy, std::log(2), 1e-9);
}

TEST(Certainty, TokensThatCannotComeCountForNothing) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {0, 0, none, 0, 0, none};
  const Certainty c = certainty_of(logits, 3);
  EXPECT_NEAR(c.kl.value(), 0, 1e-12);
  EXPECT_NEAR(c.entropy, std::log(2), 1e-9);
}

TEST(Confidence, IsOneWhenSureAndWeighsItsHalvesByLambda) {
  EXPECT_NEAR(confidence_of({0, 0}, {0.5, 1}, 10), 1, 1e-12);
  EXPECT_NEAR(confidence_of({0, std::log(10)}, {0.25, 1}, 10), 0.25, 1e-12);
  EXPECT_NEAR(confidence_of({2, 0}, {1, 2}, 10), std::exp(-1), 1e-12);
  EXPECT_NEAR(confidence_of({1e9, std::log(10)}, {0.5, 1}, 10), 0, 1e-12);
}

TEST(Confidence, FallsWithDivergenceAndWithEntropy) {
  const ConfidenceOptions options;
  EXPECT_GT(confidence_of({0.1, 1}, options, 100), confidence_of({0.2, 1}, options, 100));
  EXPECT_GT(confidence_of({0.1, 1}, options, 100), confidence_of({0.1, 2}, options, 100));
  EXPECT_EQ(confidence_of({0, 0}, options, 1), 1);
}

}  // namespace
}  // namespace tessera
