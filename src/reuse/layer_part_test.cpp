#include "reuse/layer_part.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

void expect_layers(std::string_view text, int32_t n_layers, int32_t begin, int32_t end) {
  const LayerRange got = layers_of(layer_part(text), n_layers);
  EXPECT_EQ(got.begin, begin) << text << " of " << n_layers;
  EXPECT_EQ(got.end, end) << text << " of " << n_layers;
}

TEST(LayerPart, NamesCountFromTheLastLayerDown) {
  expect_layers("all", 30, 0, 30);
  expect_layers("two_thirds", 30, 10, 30);
  expect_layers("half", 28, 14, 28);
  expect_layers("third", 30, 20, 30);
  expect_layers("third", 28, 19, 28);
  expect_layers("third", 24, 16, 24);
  expect_layers("last", 24, 23, 24);
  for (const char* name : {"all", "two_thirds", "half", "third", "last"})
    expect_layers(name, 1, 0, 1);
}

TEST(LayerPart, NumbersAreTakenAsTheyAre) {
  expect_layers("8-15", 24, 8, 16);
  expect_layers("0-0", 1, 0, 1);
  EXPECT_THROW(layers_of(layer_part("8-24"), 24), Error);
}

TEST(LayerPart, AnythingElseIsRefused) {
  for (const char* text : {"", "upper", "8", "8-", "-8", "9-8", "a-b", "1-2-3", "1-99999999999"})
    EXPECT_THROW(layer_part(text), Error) << text;
}

}  // namespace
}  // namespace tessera
