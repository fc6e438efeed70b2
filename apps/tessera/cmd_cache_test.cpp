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
#include "store/variant_index.h"

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
  EXPECT_THAT(tessera_.run({"cache", "clear"}).out, HasSubstr("scores of 1 chunk, "));

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

// Chunks of every kind, and the record of the company of one of them.
class CacheListing : public CacheExtras {
 protected:
  static ChunkKey key_number(int number) {
    ChunkKey key;
    key.digest[0] = std::byte(number);
    return key;
  }
  void put(int number, const Lineage& lineage) {
    const KvGeometry geometry{.n_layers = 2, .kv_dim = 8};
    std::vector<std::byte> payload(KvChunk::payload_bytes(geometry, 1));
    ASSERT_TRUE(tier_->put(key_number(number),
                           std::make_shared<KvChunk>(geometry, std::vector<int32_t>{number},
                                                     lineage, std::move(payload))));
  }
  json entry(int number) {
    const json entries = run_json({"cache", "ls"})["entries"];
    for (const json& e : entries) {
      if (e["key"] == key_number(number).hex()) return e;
    }
    ADD_FAILURE() << "not listed";
    return {};
  }

  const fs::path variants_ = tessera_.cache() / "variants.db";
  std::unique_ptr<Tier> tier_ = make_tier("disk", {.dir = tessera_.cache() / "kv"});
};

TEST_F(CacheListing, SaysOfEachChunkHowItWasMade) {
  put(1, Lineage{});
  put(2, {.approximation_depth = 0, .recompute_ratio = 1.0F, .sources = 0b1001});
  put(3, {.approximation_depth = 1, .recompute_ratio = 0.25F, .sources = 0b0011});

  EXPECT_EQ(entry(1)["kind"], "anchored");
  EXPECT_EQ(entry(2)["kind"], "exact");
  const json variant = entry(3);
  EXPECT_EQ(variant["kind"], "variant");
  EXPECT_EQ(variant["depth"], 1);
  EXPECT_LT(variant["age_s"], 3600) << "whatever its file's time says of its kind";
  EXPECT_TRUE(variant["uses"].is_null()) << "nothing is recorded of it";
  EXPECT_FALSE(fs::exists(variants_)) << "looking makes no file";
}

TEST_F(CacheListing, ShowsTheCompanyOfVariants) {
  put(3, {.approximation_depth = 1, .recompute_ratio = 0.25F, .sources = 0b0011});
  put(4, Lineage{});
  std::vector<Variant> gone;
  VariantIndex index(variants_);
  index.admit(key_number(30), {key_number(3), {key_number(31), key_number(32)}, 1, true}, gone);
  index.admit(key_number(40), {key_number(4), {key_number(41), {}}, 0, false}, gone);
  index.count_use(key_number(30), key_number(3));

  const json variant = entry(3), pointed_to = entry(4);
  const std::string text = tessera_.run({"cache", "ls"}).out;

  EXPECT_EQ(variant["uses"], 2);
  EXPECT_EQ(variant["chunk"], key_number(30).hex());
  EXPECT_EQ(variant["predecessor"], key_number(31).hex());
  EXPECT_EQ(variant["sink"], key_number(32).hex());
  EXPECT_EQ(pointed_to["kind"], "anchored");
  EXPECT_TRUE(pointed_to["sink"].is_null()) << "none was read off";
  for (const int number : {30, 31, 32})
    EXPECT_THAT(text, HasSubstr(" " + key_number(number).hex().substr(0, 8) + " ")) << number;
}

TEST_F(CacheListing, BlobWithABrokenHeaderIsListedWithoutAKind) {
  put(1, Lineage{});
  const std::string name = key_number(1).hex();
  write(tessera_.cache() / "kv" / name.substr(0, 2) / name, 200);

  const json broken = entry(1);

  EXPECT_TRUE(broken["tokens"].is_null());
  EXPECT_TRUE(broken["kind"].is_null());
  EXPECT_TRUE(broken["depth"].is_null());
}

TEST_F(CacheListing, StatsCountVariantsBesideTheirIndex) {
  std::vector<Variant> gone;
  VariantIndex(variants_).admit(key_number(30), {key_number(3), {key_number(31), {}}, 1, true},
                                gone);

  EXPECT_EQ(run_json({"cache", "stats"})["variants"]["entries"], 1);
  EXPECT_THAT(tessera_.run({"cache", "stats"}).out,
              HasSubstr("1 variant (chunks kept from answers), index "));
}

TEST_F(CacheExtras, FileThatCannotBeRemovedIsNamed) {
  write(scores_ / "below", 1);  // a folder in the file's place

  const Outcome run = tessera_.run({"cache", "clear", "--yes"});

  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr(scores_.string() + " could not be removed"));
}

}  // namespace
}  // namespace tessera
