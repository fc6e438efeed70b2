#include "reuse/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const PolicyInfo& policy : policies()) names.push_back(policy.name);
  return names;
}

// A prompt of a preamble, chunks of the given sizes and matches, and a query.
struct Layout {
  std::vector<Segment> segments;
  int32_t n_tokens = 0;

  explicit Layout(const std::vector<std::pair<int32_t, Match>>& chunks) {
    add(SegmentKind::kPreamble, 4, Match::kExact);
    for (const auto& [size, match] : chunks) add(SegmentKind::kChunk, size, match);
    add(SegmentKind::kQuery, 5, Match::kMiss);
  }

  void add(SegmentKind kind, int32_t size, Match match) {
    segments.push_back({kind, {n_tokens, n_tokens + size}, match});
    n_tokens += size;
  }

  std::vector<int32_t> approximate() const {
    std::vector<int32_t> positions;
    for (const Segment& s : segments) {
      if (!is_approximate(s)) continue;
      for (int32_t pos = s.range.begin; pos < s.range.end; ++pos) positions.push_back(pos);
    }
    return positions;
  }
};

Layout random_layout(std::mt19937& random) {
  std::uniform_int_distribution<int> n_chunks(0, 12);
  std::uniform_int_distribution<int> n_tokens(1, 40);
  std::uniform_int_distribution<int> match(0, 3);
  std::vector<std::pair<int32_t, Match>> chunks(static_cast<size_t>(n_chunks(random)));
  for (auto& [size, how] : chunks) {
    // One token and equal sizes (a chunk that is repeated) are the edges; make them common.
    size = match(random) == 0 ? 1 : match(random) == 0 ? 7 : n_tokens(random);
    how = static_cast<Match>(match(random));
  }
  return Layout(chunks);
}

// Evidence of the kind that the policy reads: one value per position, or per token of a scorer
// whose tokens lie across those of the target within each chunk.
Scores random_scores(const ReusePolicy& policy, const Layout& layout, std::mt19937& random) {
  std::uniform_real_distribution<float> value(0, 1);
  Scores scores;
  if (!is_of_scorer(policy.evidence())) {
    scores.value.resize(static_cast<size_t>(layout.n_tokens));
    for (float& s : scores.value) s = value(random);
    return scores;
  }
  std::uniform_int_distribution<int> step(0, 3);
  for (const Segment& s : layout.segments) {
    if (s.kind != SegmentKind::kChunk) continue;
    for (int32_t at = s.range.begin; at < s.range.end;) {
      const int32_t end = std::min(s.range.end, at + 1 + step(random));
      scores.covers.push_back({at, end});
      scores.value.push_back(value(random));
      at = step(random) == 0 ? std::max(at + 1, end - 1) : end;  // two may share a target's token
    }
  }
  return scores;
}

std::vector<int32_t> select(const ReusePolicy& policy, const Layout& layout, unsigned seed = 1) {
  if (policy.evidence() == Evidence::kNone) return policy.select(layout.segments, {});
  std::mt19937 random(seed);
  return policy.select(layout.segments, random_scores(policy, layout, random));
}

// Runs once per registered policy, so a new policy is tested by its registration alone.
class PolicyContract : public testing::TestWithParam<std::string_view> {
 protected:
  std::unique_ptr<ReusePolicy> at(double ratio) const {
    return make_policy(GetParam(), {.recompute_ratio = ratio, .soft_ratio = ratio});
  }

  // False for the policies that never recompute, whatever the ratio.
  bool recomputes() const {
    return !select(*at(1), Layout({{9, Match::kIndependent}, {9, Match::kSoft}})).empty();
  }
};

TEST_P(PolicyContract, SelectsAscendingApproximatePositionsWithinBudget) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 300; ++round) {
    const Layout layout = random_layout(random);
    const double ratio = std::uniform_int_distribution<int>(0, 100)(random) / 100.0;
    const std::vector<int32_t> candidates = layout.approximate();

    const std::vector<int32_t> rows = select(*at(ratio), layout, unsigned(round));

    ASSERT_TRUE(std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end())
        << round;
    ASSERT_TRUE(std::includes(candidates.begin(), candidates.end(), rows.begin(), rows.end()))
        << round;
    ASSERT_LE(rows.size(), size_t(recompute_budget(ratio, n_loaded_tokens(layout.segments))))
        << round;
    ASSERT_EQ(rows, select(*at(ratio), layout, unsigned(round)))
        << "not the same twice, round " << round;
  }
}

TEST_P(PolicyContract, RatioZeroRecomputesNothing) {
  const Layout layout({{1, Match::kIndependent}, {30, Match::kSoft}, {5, Match::kIndependent}});

  EXPECT_THAT(select(*at(0), layout), IsEmpty());
}

// Oracle O2: at ratio 1 nothing that was loaded in another context is left in use.
TEST_P(PolicyContract, RatioOneRecomputesEveryApproximateTokenUnlessItNeverDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const Layout layout = random_layout(random);
    ASSERT_EQ(select(*at(1), layout), recomputes() ? layout.approximate() : std::vector<int32_t>())
        << round;
  }
}

TEST_P(PolicyContract, SelectsNothingWithoutApproximateChunks) {
  EXPECT_THAT(select(*at(1), Layout({})), IsEmpty());
  EXPECT_THAT(select(*at(1), Layout({{8, Match::kExact}, {8, Match::kMiss}})), IsEmpty());
  EXPECT_THAT(at(1)->select({}, {}), IsEmpty());
}

TEST_P(PolicyContract, AsksForDistinctMatchesAndNeverForAMiss) {
  std::vector<Match> matches = at(0.15)->lookups();
  EXPECT_EQ(std::count(matches.begin(), matches.end(), Match::kMiss), 0);

  std::sort(matches.begin(), matches.end());

  EXPECT_TRUE(std::adjacent_find(matches.begin(), matches.end()) == matches.end());
}

TEST_P(PolicyContract, RefusesOptionsOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double ratio : {-0.01, 1.01, nan, infinity, -infinity}) {
    EXPECT_THROW(at(ratio), Error) << ratio;
  }
  EXPECT_THROW(make_policy(GetParam(), {.recompute_ratio = 0.15, .head_tokens = -1}), Error);
  for (const int window : {0, -3, 2})
    EXPECT_THROW(make_policy(GetParam(), {.window = window}), Error) << window;
  for (const double share : {-0.1, 1.1, nan})
    EXPECT_THROW(make_policy(GetParam(), {.head_share = share}), Error) << share;
  EXPECT_NE(at(0), nullptr);
  EXPECT_NE(at(1), nullptr);
}

TEST_P(PolicyContract, SaysWhetherItReadsTheRatio) {
  const std::vector<PolicyInfo> all = policies();
  const auto info = std::ranges::find(all, GetParam(), &PolicyInfo::name);
  const Layout layout({{9, Match::kIndependent}, {9, Match::kSoft}});

  ASSERT_TRUE(info != all.end());
  EXPECT_EQ(info->reads_ratio, select(*at(1), layout) != select(*at(0), layout));
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, PolicyContract, testing::ValuesIn(policy_names()),
                         [](const auto& param) { return std::string(param.param); });

TEST(Registry, NamesAreUniqueAndEachHasASummary) {
  std::vector<std::string_view> names = policy_names();
  std::sort(names.begin(), names.end());
  EXPECT_TRUE(std::adjacent_find(names.begin(), names.end()) == names.end());

  for (const PolicyInfo& policy : policies()) EXPECT_FALSE(policy.summary.empty()) << policy.name;
}

TEST(Registry, UnknownNameListsTheKnownAndGuesses) {
  try {
    make_policy("epik", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'epic'"));
    for (const std::string_view name : policy_names())
      EXPECT_THAT(error.what(), HasSubstr(std::string(name)));
  }
}

TEST(Lookups, AreThoseOfTheDesign) {
  EXPECT_THAT(make_policy("full", {})->lookups(), IsEmpty());
  EXPECT_THAT(make_policy("prefix", {})->lookups(), ElementsAre(Match::kExact));
  EXPECT_THAT(make_policy("reuse", {})->lookups(), ElementsAre(Match::kExact, Match::kIndependent));
  EXPECT_THAT(make_policy("epic", {})->lookups(), ElementsAre(Match::kExact, Match::kIndependent));
}

TEST(Budget, IsTheCeilingOfTheShare) {
  EXPECT_EQ(recompute_budget(0.25, 16), 4);
  EXPECT_EQ(recompute_budget(0.25, 17), 5);
  EXPECT_EQ(recompute_budget(0.15, 1), 1);
  EXPECT_EQ(recompute_budget(0.0, 100), 0);
  EXPECT_EQ(recompute_budget(0.5, 0), 0);
  EXPECT_EQ(recompute_budget(1e-9, 20), 1);
}

// Every ratio of two decimals against integer arithmetic, also when it came by way of a float.
TEST(Budget, IsNotMovedByFloatingPointNoise) {
  for (int percent = 0; percent <= 100; ++percent) {
    for (const int n : {1, 20, 25, 50, 100, 1399, 4000, 131072}) {
      const int expected = (percent * n + 99) / 100;
      ASSERT_EQ(recompute_budget(percent / 100.0, n), expected) << percent << "% of " << n;
      ASSERT_EQ(recompute_budget(double(float(percent) / 100.0F), n), expected)
          << percent << "% of " << n;
    }
  }
}

TEST(Budget, CountsOnlyApproximateTokens) {
  const Layout layout(
      {{8, Match::kExact}, {10, Match::kIndependent}, {3, Match::kSoft}, {20, Match::kMiss}});

  EXPECT_EQ(n_loaded_tokens(layout.segments), 13);
}

TEST(Epic, TakesPartInTheRatioOneContract) {
  const Layout layout({{3, Match::kIndependent}, {9, Match::kSoft}});

  EXPECT_EQ(make_policy("epic", {.recompute_ratio = 1})->select(layout.segments, {}),
            layout.approximate());
}

TEST(Epic, TakesTheHeadOfEachApproximateChunkAndSkipsTheExactFirst) {
  const Layout layout(
      {{8, Match::kExact}, {8, Match::kIndependent}, {8, Match::kMiss}, {8, Match::kIndependent}});

  const auto rows = make_policy("epic", {.recompute_ratio = 0.25})->select(layout.segments, {});

  EXPECT_THAT(rows, ElementsAre(12, 13, 28, 29));
}

TEST(Epic, GivesTheRemainderToTheFirstChunks) {
  const Layout layout(
      {{10, Match::kIndependent}, {10, Match::kIndependent}, {10, Match::kIndependent}});

  const auto rows =
      make_policy("epic", {.recompute_ratio = 0.25})->select(layout.segments, {});  // 8 of 30

  EXPECT_THAT(rows, ElementsAre(4, 5, 6, 14, 15, 16, 24, 25));
}

TEST(Epic, GivesWhatAShortChunkCannotUseToTheOthers) {
  const Layout layout(
      {{1, Match::kIndependent}, {10, Match::kIndependent}, {9, Match::kIndependent}});

  const auto rows =
      make_policy("epic", {.recompute_ratio = 0.45})->select(layout.segments, {});  // 9: 3 each

  EXPECT_THAT(rows, ElementsAre(4, 5, 6, 7, 8, 15, 16, 17, 18));
}

TEST(Epic, SpendsTheWholeBudget) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const Layout layout = random_layout(random);
    const double ratio = std::uniform_int_distribution<int>(0, 100)(random) / 100.0;
    const auto rows = make_policy("epic", {.recompute_ratio = ratio})->select(layout.segments, {});
    ASSERT_EQ(rows.size(), size_t(recompute_budget(ratio, n_loaded_tokens(layout.segments))))
        << round;
  }
}

TEST(Epic, GivenHeadTokensAreExactWhateverTheRatio) {
  const Layout layout({{2, Match::kIndependent}, {9, Match::kSoft}, {9, Match::kExact}});

  for (const double ratio : {0.0, 0.15, 1.0}) {
    const auto policy = make_policy("epic", {.recompute_ratio = ratio, .head_tokens = 3});
    EXPECT_THAT(policy->select(layout.segments, {}), ElementsAre(4, 5, 6, 7, 8)) << ratio;
  }
}

TEST(Epic, MoreHeadTokensThanAnyChunkHasAreTheWholeChunk) {
  const Layout layout({{2, Match::kIndependent}, {9, Match::kSoft}});
  const int32_t most = std::numeric_limits<int32_t>::max();

  EXPECT_EQ(make_policy("epic", {.head_tokens = most})->select(layout.segments, {}),
            layout.approximate());
}

// Scores of a layout: 0 but for the given positions.
Scores scores(const Layout& layout, const std::map<int32_t, float>& given) {
  std::vector<float> out(static_cast<size_t>(layout.n_tokens), 0.0F);
  for (const auto& [at, value] : given) out[static_cast<size_t>(at)] = value;
  return {out, {}};
}

TEST(CacheBlend, TakesTheHighestScoresAndTheEarlierOfEqualOnes) {
  const Layout layout({{10, Match::kIndependent}, {10, Match::kExact}, {10, Match::kSoft}});
  const auto policy = make_policy("cacheblend", {.recompute_ratio = 0.2});  // 4 of 20

  const auto rows = policy->select(
      layout.segments, scores(layout, {{5, 2.0F}, {15, 9.0F}, {24, 3.0F}, {25, 1.0F}, {33, 1.0F}}));

  EXPECT_THAT(rows, ElementsAre(5, 24, 25, 33)) << "15 is exact";
  EXPECT_THAT(policy->select(layout.segments, scores(layout, {})), ElementsAre(4, 5, 6, 7));
}

TEST(QueryAware, TakesTheNeighboursOfWhatTheQueryAttendsTo) {
  const Layout layout({{30, Match::kIndependent}});
  const Scores score = scores(layout, {{20, 1.0F}, {0, 50.0F}});

  // 5 of 30; the preamble's score is not lent to the tokens beside it.
  EXPECT_THAT(make_policy("query_aware", {.recompute_ratio = 0.15, .window = 5})
                  ->select(layout.segments, score),
              ElementsAre(18, 19, 20, 21, 22));
  EXPECT_THAT(make_policy("query_aware", {.recompute_ratio = 0.01, .window = 1})
                  ->select(layout.segments, score),
              ElementsAre(20));
}

TEST(QueryAware, HeadShareGoesToTheFirstTokensOfChunks) {
  const Layout layout({{10, Match::kIndependent}, {10, Match::kIndependent}});
  const auto policy =
      make_policy("query_aware", {.recompute_ratio = 0.2, .window = 1, .head_share = 0.5});

  const auto rows =
      policy->select(layout.segments, scores(layout, {{4, 9.0F}, {9, 2.0F}, {20, 3.0F}}));

  EXPECT_THAT(rows, ElementsAre(4, 9, 14, 20)) << "4 counts once, as a head";
}

TEST(Random, DependsOnItsSeedAndOnNothingElse) {
  const Layout layout({{50, Match::kIndependent}});
  const auto drawn = [&](uint64_t seed) {
    return make_policy("random", {.recompute_ratio = 0.2, .seed = seed})
        ->select(layout.segments, scores(layout, {{9, 1.0F}}));
  };

  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  std::vector<int> hits(50, 0);
  for (uint64_t seed = 0; seed < 2000; ++seed)
    for (const int32_t at : drawn(seed)) ++hits[static_cast<size_t>(at - 4)];
  for (const int n : hits) EXPECT_NEAR(n, 400, 100);  // 5.6 standard deviations
}

}  // namespace
}  // namespace tessera
