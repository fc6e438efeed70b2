#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.h"
#include "store/score_store.h"
#include "store/tier.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// The folder of another user is not believed, so nothing can be said of what lies in it.
TEST(CacheVerify, BlobThatCannotBeReadIsNotCalledDamagedAndIsKept) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  Program tessera;
  const fs::path dir = tessera.cache() / "kv";
  const ChunkKey key{};
  const KvGeometry geometry{.n_layers = 2, .kv_dim = 8};
  std::vector<std::byte> payload(KvChunk::payload_bytes(geometry, 1));
  ASSERT_TRUE(make_tier("disk", {.dir = dir})
                  ->put(key, std::make_shared<KvChunk>(geometry, std::vector<int32_t>{1}, Lineage{},
                                                       std::move(payload))));
  ASSERT_EQ(::chown(dir.c_str(), 65534, 65534), 0);

  const Outcome text = tessera.run({"cache", "verify"});
  const Outcome as_json = tessera.run({"cache", "verify", "--json"});

  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("0 good, 0 damaged, 1 could not be read\n"));
  EXPECT_THAT(text.out, HasSubstr("could not be read " + key.hex()));
  EXPECT_EQ(as_json.status, 1);
  EXPECT_EQ(json::parse(as_json.out)["unknown"], json::array({key.hex()}));
  EXPECT_EQ(json::parse(as_json.out)["damaged"], json::array());
  EXPECT_TRUE(fs::exists(dir / key.hex().substr(0, 2) / key.hex()));
}

class CacheExtras : public testing::Test {
 protected:
  void write(const fs::path& file, size_t n_bytes) const {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << std::string(n_bytes, 'x');
  }
  json run_json(const std::vector<std::string>& args) {
    std::vector<std::string> all = args;
    all.emplace_back("--json");
    const Outcome run = tessera_.run(all);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out, nullptr, false);
  }

  Program tessera_;
  const fs::path scores_ = tessera_.cache() / "scores.db";
  const fs::path references_ = tessera_.cache() / "eval" / "full";
};

TEST_F(CacheExtras, ReferencesOfEvalAreCountedAndCleared) {
  write(references_ / "ab12", 100);
  write(references_ / "ab13", 200);
  const json expected = {{"entries", 2}, {"bytes", 300}};

  EXPECT_EQ(run_json({"cache", "stats"})["references"], expected);
  EXPECT_EQ(run_json({"cache", "clear"})["references"], expected);
  EXPECT_THAT(tessera_.run({"cache", "clear"}).out, HasSubstr("answers to 2 questions"));
  EXPECT_TRUE(fs::exists(references_ / "ab12"));

  EXPECT_EQ(run_json({"cache", "clear", "--yes"})["references"], expected);

  EXPECT_TRUE(fs::is_empty(references_));
}

TEST_F(CacheExtras, ScoresAreCountedAndClearedWithWhatSqliteKeepsBeside) {
  ASSERT_TRUE(ScoreStore(scores_).put(ChunkKey{}, {{{0, 3}}, {0.5F}}));
  const json before = run_json({"cache", "clear"})["scores"];
  EXPECT_EQ(before["entries"], 1);
  EXPECT_EQ(before["bytes"], fs::file_size(scores_));
  EXPECT_THAT(tessera_.run({"cache", "clear"}).out, HasSubstr("scores of 1 chunks"));

  run_json({"cache", "clear", "--yes"});

  for (const char* suffix : {"", "-wal", "-shm"})
    EXPECT_FALSE(fs::exists(scores_.string() + suffix)) << suffix;
}

TEST_F(CacheExtras, ScoresThatAreNoDatabaseAreClearedToo) {
  write(scores_, 5000);
  EXPECT_EQ(run_json({"cache", "clear"})["scores"], (json{{"entries", 0}, {"bytes", 5000}}));

  run_json({"cache", "clear", "--yes"});

  EXPECT_FALSE(fs::exists(scores_));
}

TEST_F(CacheExtras, FileThatCannotBeRemovedIsNamed) {
  write(scores_ / "below", 1);  // a folder in the file's place

  const Outcome run = tessera_.run({"cache", "clear", "--yes"});

  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr(scores_.string() + " could not be removed"));
}

}  // namespace
}  // namespace tessera
