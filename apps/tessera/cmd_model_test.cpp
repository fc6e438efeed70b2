#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ModelRemoval : public testing::Test {
 protected:
  ModelRemoval() { fs::create_directories(file_.parent_path()); }

  Program tessera_;
  const fs::path file_ = tessera_.cache() / "models" / "smollm2-135m.gguf";
  const fs::path part_ = file_.string() + ".part";
};

TEST_F(ModelRemoval, UnfinishedDownloadAloneIsRemovedAndNamed) {
  std::ofstream(part_) << "half of it";

  const Outcome run = tessera_.run({"model", "rm", "smollm2-135m"});

  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "removed the unfinished download of smollm2-135m\n");
  EXPECT_FALSE(fs::exists(part_));
  EXPECT_EQ(tessera_.run({"model", "rm", "smollm2-135m"}).status, 4);
}

TEST_F(ModelRemoval, JsonSaysWhatWasThere) {
  std::ofstream(file_) << "bytes";

  const json removed =
      json::parse(tessera_.run({"model", "rm", "smollm2-135m", "--json"}).out)["removed"];

  ASSERT_EQ(removed.size(), 1U);
  EXPECT_EQ(removed[0]["file"], true);
  EXPECT_EQ(removed[0]["partial"], false);
}

}  // namespace
}  // namespace tessera
