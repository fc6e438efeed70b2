#include "store/score_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/sqlite.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

ChunkScores some_scores() { return {{{0, 3}, {3, 3}, {3, 10}}, {1.5F, -2.0F, 1e30F}}; }

class ScoreStoreTest : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_.path() / "below" / "scores.db"; }
  store_testing::ScratchDir folder_;
  ChunkKey key_ = store_testing::key_number(1);
};

TEST_F(ScoreStoreTest, WhatWasPutIsFoundAlsoByAnotherProcess) {
  {
    ScoreStore store(file());
    EXPECT_FALSE(store.find(key_));
    EXPECT_TRUE(store.put(key_, some_scores()));
    EXPECT_EQ(store.find(key_), some_scores());
  }
  ScoreStore again(file());
  EXPECT_TRUE(again.contains(key_));
  EXPECT_EQ(again.find(key_), some_scores());
  EXPECT_FALSE(again.find(store_testing::key_number(2))) << "another key";
  EXPECT_EQ(again.stats().hits, 1U);
  EXPECT_EQ(again.stats().misses, 1U);
  EXPECT_EQ(again.stats().entries, 1U);
}

TEST_F(ScoreStoreTest, LaterScoresReplaceEarlierOnes) {
  ScoreStore store(file());
  store.put(key_, some_scores());
  const ChunkScores other = {{{0, 1}}, {7.0F}};

  EXPECT_TRUE(store.put(key_, other));

  EXPECT_EQ(store.find(key_), other);
  EXPECT_EQ(store.stats().entries, 1U);
}

TEST_F(ScoreStoreTest, DamagedRecordIsAMiss) {
  ScoreStore(file()).put(key_, some_scores());
  {
    Database database(file());
    database.execute(
        "UPDATE score SET record = substr(record, 1, 8) || x'ff' || substr(record, 10)");
  }
  ScoreStore store(file());
  EXPECT_FALSE(store.find(key_));
  EXPECT_EQ(store.stats().corrupt, 1U);
  {
    Database database(file());
    database.execute("UPDATE score SET record = x'00'");
  }
  EXPECT_FALSE(store.find(key_));
  EXPECT_EQ(store.stats().corrupt, 2U);
  EXPECT_TRUE(store.put(key_, some_scores()));
  EXPECT_EQ(store.find(key_), some_scores());
}

TEST_F(ScoreStoreTest, FileThatIsNoDatabaseServesNothingAndEndsNothing) {
  std::filesystem::create_directories(file().parent_path());
  std::ofstream(file()) << "this is a text, and long enough to be looked at as a header of a file";
  ScoreStore store(file());
  EXPECT_FALSE(store.put(key_, some_scores()));
  EXPECT_FALSE(store.find(key_));
  EXPECT_FALSE(store.contains(key_));
  EXPECT_GE(store.stats().errors, 1U);
}

TEST_F(ScoreStoreTest, RecordUnderAnotherKeyIsAMiss) {
  ScoreStore(file()).put(key_, some_scores());
  const ChunkKey other = store_testing::key_number(2);
  {
    Database database(file());
    database.execute("UPDATE score SET key = '" + other.hex() + "'");
  }
  ScoreStore store(file());
  EXPECT_FALSE(store.find(other));
  EXPECT_EQ(store.stats().corrupt, 1U);
}

TEST(ScoreKey, DependsOnEverythingTheScoresDependOn) {
  KvDomain scorer;
  scorer.model_digest = "m";
  const std::vector<int32_t> anchor = {1, 2};
  const ChunkKey key = score_key({scorer, "norms 1-2", anchor}, "text");
  EXPECT_EQ(key, score_key({scorer, "norms 1-2", anchor}, "text"));
  EXPECT_NE(key, score_key({scorer, "norms 1-3", anchor}, "text"));
  EXPECT_NE(key, score_key({scorer, "norms 1-2", {}}, "text"));
  EXPECT_NE(key, score_key({scorer, "norms 1-2", anchor}, "text "));
  for (std::string KvDomain::*field :
       {&KvDomain::model_digest, &KvDomain::name_space, &KvDomain::weight_types,
        &KvDomain::tokenizer_digest, &KvDomain::rope}) {
    KvDomain other = scorer;
    other.*field += "x";
    EXPECT_NE(key, score_key({other, "norms 1-2", anchor}, "text"));
  }
}

}  // namespace
}  // namespace tessera
