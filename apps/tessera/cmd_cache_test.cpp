#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/program.h"
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

}  // namespace
}  // namespace tessera
