#pragma once
// What the tests of pulling share: a folder of their own that also holds the caches, an entry for a
// small file of known bytes, and short waiting times.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "catalog/part_file.h"
#include "catalog/pull.h"

namespace tessera::test_support {

class PullTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TESSERA_CACHE", (root_ / "cache").c_str(), 1);
    ::setenv("TESSERA_MODELS", models().c_str(), 1);
    ::setenv("no_proxy", "*", 1);  // the loopback is never behind a proxy
    options_.first_backoff = std::chrono::milliseconds(1);
    options_.max_backoff = std::chrono::milliseconds(2);
  }

  std::filesystem::path models() const { return root_ / "models"; }
  std::filesystem::path model() const { return models() / "tiny.gguf"; }
  std::filesystem::path part() const { return part_path(model()); }

  static std::string random_bytes(size_t n, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::string bytes(n, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  static std::string sha256_of(const std::string& bytes) {
    Sha256 hash;
    hash.update(bytes);
    return to_hex(hash.digest());
  }
  static CatalogEntry entry_for(const std::string& file, std::vector<ModelSource> sources) {
    return {"tiny", "llama", "a test", sha256_of(file), file.size(), std::move(sources)};
  }
  static ModelSource url_source(std::string url) {
    ModelSource source;
    source.url = std::move(url);
    return source;
  }

  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

  std::filesystem::path pull(const CatalogEntry& entry, const std::stop_token& stop = {}) {
    return pull_entry(entry, models(), options_, progress_, stop);
  }
  // The Error of a pull that has to fail; its code in `code`.
  std::string pull_error(const CatalogEntry& entry, ErrorCode code = ErrorCode::kIo,
                         const std::stop_token& stop = {}) {
    try {
      pull(entry, stop);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    ADD_FAILURE() << "the pull succeeded";
    return {};
  }

  ScratchFolder scratch_{testing::TempDir()};
  std::filesystem::path root_ = scratch_.path();
  PullOptions options_;
  ProgressCallback progress_;
};

}  // namespace tessera::test_support
