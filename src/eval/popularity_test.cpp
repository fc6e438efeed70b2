#include "eval/popularity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(RequestCounts, EqualPassagesAreOneAndTheMostAskedForComesFirst) {
  EvalSet set;
  set.samples.resize(3);
  set.samples[0].passages = {{"a", "x"}, {"b", "x"}};
  set.samples[1].passages = {{"b", "x"}, {"", "x"}};
  set.samples[2].passages = {{"b", "x"}, {"a", "x"}};

  EXPECT_THAT(request_counts(set), ElementsAre(3, 2, 1));
}

TEST(ServedShare, IsWhatTheMostPopularGet) {
  const std::vector<size_t> counts = {6, 2, 1, 1};

  EXPECT_DOUBLE_EQ(served_share(counts, 0.25), 0.6);
  EXPECT_DOUBLE_EQ(served_share(counts, 0.26), 0.8);  // two of them
  EXPECT_DOUBLE_EQ(served_share(counts, 0), 0);
  EXPECT_DOUBLE_EQ(served_share(counts, 1), 1);
}

TEST(ServedShare, AWholeNumberOfPassagesIsNotRoundedUp) {
  const std::vector<size_t> counts(30, 1);

  EXPECT_DOUBLE_EQ(served_share(counts, 0.1), 0.1);
}

}  // namespace
}  // namespace tessera
