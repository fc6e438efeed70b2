#include "store/tier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

using store_testing::get_like;
using store_testing::ids_of;
using store_testing::is_same;
using store_testing::key_number;
using store_testing::kGeometry;
using store_testing::make_chunk;
using store_testing::ScratchDir;

// Runs once per registered tier, so a new tier is tested by its registration alone.
class TierContract : public testing::TestWithParam<std::string_view> {
 protected:
  std::unique_ptr<Tier> make(uint64_t limit_bytes = 0) const {
    return make_tier(GetParam(), {scratch_.path() / "kv", limit_bytes});
  }
  // What a chunk takes in this tier.
  uint64_t bytes_of(const ChunkPtr& chunk) const {
    const ScratchDir other;
    const auto tier = make_tier(GetParam(), {other.path(), 0});
    EXPECT_TRUE(tier->put(key_number(1), chunk));
    return tier->stats().bytes;
  }

  ScratchDir scratch_;
  std::unique_ptr<Tier> tier_ = make();
};

TEST_P(TierContract, HasTheNameItIsRegisteredUnder) { EXPECT_EQ(tier_->name(), GetParam()); }

TEST_P(TierContract, GetReturnsWhatWasPut) {
  for (const int32_t n_tokens : {1, 2, 63, 64, 65}) {
    const auto number = static_cast<uint32_t>(n_tokens);
    const ChunkPtr chunk = make_chunk(number, n_tokens);
    ASSERT_TRUE(tier_->put(key_number(number), chunk));

    EXPECT_TRUE(is_same(get_like(*tier_, key_number(number), chunk), chunk)) << n_tokens;
  }
  EXPECT_EQ(tier_->stats().hits, 5U);
  EXPECT_EQ(tier_->stats().misses, 0U);
}

TEST_P(TierContract, KeyThatWasNeverPutIsAMiss) {
  const ChunkPtr chunk = make_chunk(1, 4);
  ASSERT_TRUE(tier_->put(key_number(1), chunk));

  EXPECT_EQ(get_like(*tier_, key_number(2), chunk), nullptr);

  EXPECT_EQ(tier_->stats().misses, 1U);
  EXPECT_EQ(tier_->stats().corrupt, 0U);
  EXPECT_NE(get_like(*tier_, key_number(1), chunk), nullptr);
}

TEST_P(TierContract, PutReplacesOlderChunkOfSameKey) {
  const ChunkPtr newer = make_chunk(5, 5);
  ASSERT_TRUE(tier_->put(key_number(7), make_chunk(3, 3)));

  ASSERT_TRUE(tier_->put(key_number(7), newer));

  EXPECT_TRUE(is_same(get_like(*tier_, key_number(7), newer), newer));
  EXPECT_EQ(tier_->stats().entries, 1U);
  EXPECT_EQ(tier_->stats().bytes, bytes_of(newer));
}

TEST_P(TierContract, EraseRemovesAndSaysWhetherItWasThere) {
  const ChunkPtr chunk = make_chunk(1, 4);
  ASSERT_TRUE(tier_->put(key_number(1), chunk));
  ASSERT_TRUE(tier_->put(key_number(2), chunk));

  EXPECT_TRUE(tier_->erase(key_number(1)));
  EXPECT_FALSE(tier_->erase(key_number(1)));
  EXPECT_FALSE(tier_->erase(key_number(3)));

  EXPECT_EQ(get_like(*tier_, key_number(1), chunk), nullptr);
  EXPECT_NE(get_like(*tier_, key_number(2), chunk), nullptr);
  EXPECT_EQ(tier_->stats().entries, 1U);
}

TEST_P(TierContract, ContainsFollowsPutAndErase) {
  EXPECT_FALSE(tier_->contains(key_number(1)));
  ASSERT_TRUE(tier_->put(key_number(1), make_chunk(1, 4)));
  EXPECT_TRUE(tier_->contains(key_number(1)));
  EXPECT_EQ(tier_->verify(key_number(1)), Verdict::kGood);
  tier_->erase(key_number(1));
  EXPECT_FALSE(tier_->contains(key_number(1)));
  EXPECT_EQ(tier_->verify(key_number(1)), Verdict::kGone);
}

TEST_P(TierContract, EvictedThenAskedForIsAMissEveryTime) {
  const ChunkPtr chunk = make_chunk(1, 1);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(tier_->put(key_number(1), chunk));
    ASSERT_NE(get_like(*tier_, key_number(1), chunk), nullptr);
    ASSERT_TRUE(tier_->erase(key_number(1)));
    ASSERT_EQ(get_like(*tier_, key_number(1), chunk), nullptr);
  }
}

// A hash alone never decides: these requests have the key of the stored chunk.
TEST_P(TierContract, OtherIdsUnderTheSameKeyAreARemovedMiss) {
  const ChunkPtr chunk = make_chunk(1, 4);
  for (const std::vector<int32_t>& ids :
       {ids_of(2, 4), ids_of(1, 3), ids_of(1, 5), std::vector<int32_t>()}) {
    const uint64_t corrupt = tier_->stats().corrupt;
    ASSERT_TRUE(tier_->put(key_number(1), chunk));
    ASSERT_NE(get_like(*tier_, key_number(1), chunk), nullptr);

    EXPECT_EQ(tier_->get(key_number(1), kGeometry, ids), nullptr);

    EXPECT_EQ(tier_->stats().corrupt, corrupt + 1);
    EXPECT_FALSE(tier_->contains(key_number(1)));
    EXPECT_EQ(tier_->stats().bytes, 0U);
  }
}

TEST_P(TierContract, OtherGeometryUnderTheSameKeyIsARemovedMiss) {
  const ChunkPtr chunk = make_chunk(1, 4);
  for (const KvGeometry& geometry :
       {KvGeometry{3, 9}, KvGeometry{2, 8}, KvGeometry{6, 4}, KvGeometry{4, 6}}) {
    ASSERT_TRUE(tier_->put(key_number(1), chunk));
    ASSERT_NE(get_like(*tier_, key_number(1), chunk), nullptr);

    EXPECT_EQ(tier_->get(key_number(1), geometry, chunk->ids()), nullptr);

    EXPECT_FALSE(tier_->contains(key_number(1)));
  }
  EXPECT_EQ(tier_->stats().corrupt, 4U);
}

TEST_P(TierContract, ReaderKeepsItsChunkWhileItIsErasedAndReplaced) {
  const ChunkPtr chunk = make_chunk(1, 64);
  ASSERT_TRUE(tier_->put(key_number(1), make_chunk(1, 64)));
  const ChunkPtr held = get_like(*tier_, key_number(1), chunk);

  ASSERT_TRUE(tier_->put(key_number(1), make_chunk(2, 64)));
  ASSERT_TRUE(tier_->erase(key_number(1)));
  tier_.reset();

  EXPECT_TRUE(is_same(held, chunk));
}

TEST_P(TierContract, ForEachVisitsEveryEntryOnceAndStopsWhenTold) {
  std::set<ChunkKey> expected;
  for (uint32_t n = 1; n <= 5; ++n) {
    ASSERT_TRUE(tier_->put(key_number(n), make_chunk(n, int32_t(n))));
    expected.insert(key_number(n));
  }

  std::set<ChunkKey> seen;
  uint64_t bytes = 0;
  tier_->for_each([&](const TierEntry& entry) {
    EXPECT_TRUE(seen.insert(entry.key).second);
    EXPECT_EQ(entry.key, key_number(uint32_t(entry.n_tokens)));
    EXPECT_TRUE(tier_->contains(entry.key));  // calls of the tier are allowed meanwhile
    bytes += entry.bytes;
    return true;
  });
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(bytes, tier_->stats().bytes);

  int n_visits = 0;
  tier_->for_each([&](const TierEntry&) { return ++n_visits < 2; });
  EXPECT_EQ(n_visits, 2);
}

TEST_P(TierContract, LimitEvictsTheLeastRecentlyUsedFirst) {
  const ChunkPtr chunk = make_chunk(1, 4);
  tier_ = make(3 * bytes_of(chunk));
  for (uint32_t n = 1; n <= 3; ++n) ASSERT_TRUE(tier_->put(key_number(n), chunk));
  ASSERT_NE(get_like(*tier_, key_number(1), chunk), nullptr);

  ASSERT_TRUE(tier_->put(key_number(4), chunk));

  EXPECT_FALSE(tier_->contains(key_number(2)));
  for (const uint32_t n : {1, 3, 4}) EXPECT_TRUE(tier_->contains(key_number(n))) << n;
}

// Of a stream of requests that each leave KV behind in their own context, anchored chunks survive.
TEST_P(TierContract, KvOfRequestsTakesAnEighthOfTheLimitAlsoAfterARestart) {
  const ChunkPtr anchored = make_chunk(1, 4);
  const uint64_t limit = 16 * bytes_of(anchored);
  tier_ = make(limit);
  for (uint32_t n = 0; n < 16; ++n) ASSERT_TRUE(tier_->put(key_number(n), anchored));
  const ChunkPtr in_context = std::make_shared<const KvChunk>(
      anchored->geometry(), ids_of(1, 4), Lineage{.recompute_ratio = 0.5F, .sources = 2},
      std::vector<std::byte>(anchored->payload().begin(), anchored->payload().end()));

  for (uint32_t n = 0; n < 20; ++n) {
    ASSERT_TRUE(tier_->put(key_number(100 + n), in_context));
    ASSERT_NE(get_like(*tier_, key_number(100 + n), in_context), nullptr);
    if (n == 9 && GetParam() == "disk") tier_ = make(limit);
  }

  const auto n_kept = [this](uint32_t first, uint32_t n) {
    uint32_t kept = 0;
    for (uint32_t i = first; i < first + n; ++i) kept += tier_->contains(key_number(i)) ? 1 : 0;
    return kept;
  };
  EXPECT_EQ(n_kept(0, 16), 14U);
  EXPECT_EQ(n_kept(100, 20), 2U);
  EXPECT_TRUE(tier_->contains(key_number(119)));
}

TEST_P(TierContract, ReplacingAtTheLimitEvictsNoOther) {
  const ChunkPtr chunk = make_chunk(1, 4);
  tier_ = make(2 * bytes_of(chunk));
  ASSERT_TRUE(tier_->put(key_number(1), chunk));
  ASSERT_TRUE(tier_->put(key_number(2), chunk));

  ASSERT_TRUE(tier_->put(key_number(2), make_chunk(2, 4)));

  EXPECT_TRUE(tier_->contains(key_number(1)));
  EXPECT_TRUE(tier_->contains(key_number(2)));
}

TEST_P(TierContract, LimitHoldsAlwaysAndExactly) {
  const uint64_t one = bytes_of(make_chunk(1, 4));
  tier_ = make(2 * one);
  for (uint32_t n = 0; n < 20; ++n) {
    tier_->put(key_number(n % 7), make_chunk(n, int32_t(1 + n % 6)));
    EXPECT_LE(tier_->stats().bytes, 2 * one);
  }

  tier_ = make(one);
  EXPECT_TRUE(tier_->put(key_number(1), make_chunk(1, 4)));
  EXPECT_EQ(tier_->stats().bytes, one);
}

TEST_P(TierContract, ChunkLargerThanTheLimitIsRefusedAndEvictsNothing) {
  const ChunkPtr small = make_chunk(1, 4);
  const uint64_t limit = bytes_of(small);
  tier_ = make(limit);
  ASSERT_TRUE(tier_->put(key_number(1), small));

  EXPECT_FALSE(tier_->put(key_number(2), make_chunk(2, 5)));

  EXPECT_FALSE(tier_->contains(key_number(2)));
  EXPECT_TRUE(is_same(get_like(*tier_, key_number(1), small), small));
}

// One random call; true when it was a get that hit. What it got must be right.
bool call_at_random(Tier& tier, std::mt19937& random) {
  const uint32_t n = random() % 6;
  const ChunkPtr chunk = make_chunk(n, 8);
  const uint32_t call = random() % 8;
  if (call == 0) tier.erase(key_number(n));
  if (call == 1) tier.contains(key_number(n));
  if (call == 2) tier.for_each([](const TierEntry& entry) { return entry.n_tokens == 8; });
  if (call == 3) {
    EXPECT_LE(tier.stats().entries, 6U);
  }
  if (call == 4) tier.put(key_number(n), chunk);
  if (call < 5) return false;
  const ChunkPtr found = get_like(tier, key_number(n), chunk);
  EXPECT_TRUE(found == nullptr || is_same(found, chunk));
  return found != nullptr;
}

TEST_P(TierContract, ThreadsNeverSeeAWrongChunk) {
  tier_ = make(4 * bytes_of(make_chunk(1, 8)));
  std::atomic<uint64_t> n_hits = 0;
  std::vector<std::jthread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread, &n_hits] {
      std::mt19937 random(thread);
      for (int i = 0; i < 60; ++i) n_hits += call_at_random(*tier_, random) ? 1 : 0;
    });
  }
  threads.clear();

  const TierStats stats = tier_->stats();
  EXPECT_EQ(stats.hits, n_hits);
  EXPECT_EQ(stats.corrupt, 0U);
  EXPECT_EQ(stats.errors, 0U);
  uint64_t bytes = 0;
  tier_->for_each([&](const TierEntry& entry) { return bytes += entry.bytes, true; });
  EXPECT_EQ(bytes, stats.bytes);
  const ChunkPtr last = make_chunk(1, 8);
  EXPECT_TRUE(tier_->put(key_number(1), last));
  EXPECT_TRUE(is_same(get_like(*tier_, key_number(1), last), last));
}

TEST_P(TierContract, WritersOfOneKeyLeaveOneWholeChunk) {
  std::vector<std::jthread> writers;
  for (uint32_t n = 1; n <= 3; ++n) {
    writers.emplace_back([this, n] {
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(tier_->put(key_number(9), make_chunk(n, int32_t(n))));
    });
  }
  writers.clear();

  uint64_t bytes = 0;
  uint32_t winner = 0;
  tier_->for_each([&](const TierEntry& entry) {
    winner = uint32_t(entry.n_tokens);
    bytes += entry.bytes;
    return true;
  });
  ASSERT_GE(winner, 1U);
  const ChunkPtr chunk = make_chunk(winner, int32_t(winner));
  EXPECT_TRUE(is_same(get_like(*tier_, key_number(9), chunk), chunk));
  EXPECT_EQ(tier_->stats().entries, 1U);
  EXPECT_EQ(tier_->stats().bytes, bytes);
}

// One random operation on the tier and on the map.
void step_like_a_map(Tier& tier, std::map<uint32_t, ChunkPtr>& model, std::mt19937& random) {
  const uint32_t n = random() % 8;
  const ChunkKey key = key_number(n);
  const auto known = model.find(n);
  const ChunkPtr expected = known == model.end() ? nullptr : known->second;
  const uint32_t operation = random() % 4;
  if (operation == 0) {
    model[n] = make_chunk(random() % 100, int32_t(1 + random() % 5));
    ASSERT_TRUE(tier.put(key, model[n]));
  } else if (operation == 1) {
    ASSERT_EQ(tier.erase(key), model.erase(n) == 1);
  } else if (operation == 2) {
    ASSERT_EQ(tier.contains(key), expected != nullptr);
  } else {
    const ChunkPtr request = expected == nullptr ? make_chunk(n, 1) : expected;
    ASSERT_TRUE(is_same(get_like(tier, key, request), expected));
  }
  ASSERT_EQ(tier.stats().entries, model.size());
}

// A tier may lose chunks only when it has a limit, so without one it must hold exactly what the map
// holds.
TEST_P(TierContract, BehavesLikeAMap) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const ScratchDir scratch;
    const auto tier = make_tier(GetParam(), {scratch.path(), 0});
    std::mt19937 random(seed);
    std::map<uint32_t, ChunkPtr> model;
    for (int step = 0; step < 60; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      ASSERT_NO_FATAL_FAILURE(step_like_a_map(*tier, model, random));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTiers, TierContract, testing::ValuesIn(tier_names()),
                         [](const auto& test) { return std::string(test.param); });

TEST(TierRegistry, UnknownNameIsRefusedWithTheKnownOnes) {
  try {
    make_tier("tape", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    for (const std::string_view name : tier_names()) {
      EXPECT_NE(std::string_view(error.what()).find(name), std::string_view::npos) << error.what();
    }
  }
  EXPECT_THROW(make_tier("disk", {}), Error);  // no folder
}

}  // namespace
}  // namespace tessera
