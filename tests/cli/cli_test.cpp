#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"
#include "store/tier.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Cli : public testing::Test {
 protected:
  Program tessera_;
};

TEST_F(Cli, VersionNamesWhatABugReportNeeds) {
  const Outcome run = tessera_.run({"version", "--json"});

  ASSERT_EQ(run.status, 0) << run.err;
  const json info = json::parse(run.out);
  for (const char* key : {"version", "commit", "ggml", "compiler", "cpu_flags"}) {
    EXPECT_FALSE(info.at(key).empty()) << key;
  }
}

TEST_F(Cli, GlobalOptionsStandBeforeOrBehindTheCommand) {
  EXPECT_EQ(tessera_.run({"--json", "version"}).out, tessera_.run({"version", "--json"}).out);
}

TEST_F(Cli, NoCommandShowsTheHelpAsAUsageError) {
  const Outcome run = tessera_.run({});

  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("Subcommands:"));
}

TEST_F(Cli, HelpIsNoError) {
  const Outcome run = tessera_.run({"cache", "clear", "--help"});

  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, HasSubstr("--yes"));
  EXPECT_EQ(run.err, "");
}

TEST_F(Cli, UnknownCommandGetsTheNearestOne) {
  const Outcome near = tessera_.run({"versoin"});
  const Outcome far = tessera_.run({"xylophone"});

  EXPECT_EQ(near.status, 2);
  EXPECT_THAT(near.err, StartsWith("error: unknown command 'versoin' - did you mean 'version'?"));
  EXPECT_EQ(far.status, 2);
  EXPECT_THAT(far.err, Not(HasSubstr("did you mean")));
}

TEST_F(Cli, UnknownSubcommandOfACommandIsLookedUpThere) {
  EXPECT_THAT(tessera_.run({"model", "pul", "x"}).err, HasSubstr("did you mean 'pull'?"));
}

TEST_F(Cli, UnknownOptionGetsTheNearestOneOfItsCommandAndOfTheProgram) {
  EXPECT_THAT(tessera_.run({"cache", "clear", "--yess"}).err, HasSubstr("did you mean '--yes'?"));
  EXPECT_THAT(tessera_.run({"cache", "clear", "--jsn"}).err, HasSubstr("did you mean '--json'?"));
  EXPECT_EQ(tessera_.run({"cache", "clear", "--jsn"}).status, 2);
}

TEST_F(Cli, EmptyAndNegativeNumbersAreRefused) {
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--ram-tier", "-1"},
                                                        {"--disk-limit", "-5MB"},
                                                        {"--seed", "-1"},
                                                        {"--ram-tier", ""},
                                                        {"--ratio", ""},
                                                        {"--top-k", ""}}) {
    const Outcome run = tessera_.run({"ask", "why", option, value});
    EXPECT_EQ(run.status, 2) << option << " '" << value << "'";
    EXPECT_THAT(run.err, AllOf(HasSubstr(option), HasSubstr(value.empty() ? "empty" : "negative")));
  }
}

TEST_F(Cli, ErrorsAreOneObjectOnStdoutUnderJson) {
  const Outcome usage = tessera_.run({"--json", "versoin"});
  const Outcome missing = tessera_.run({"model", "info", "no-such-model", "--json"});

  EXPECT_EQ(json::parse(usage.out)["error"]["code"], "usage");
  EXPECT_EQ(json::parse(usage.out)["error"]["exit_status"], usage.status);
  EXPECT_EQ(missing.status, 4);
  EXPECT_EQ(json::parse(missing.out)["error"]["code"], "not_found");
  EXPECT_THAT(missing.err, StartsWith("error: "));
}

TEST_F(Cli, ErrorsLeaveStdoutEmptyWithoutJson) {
  const Outcome run = tessera_.run({"model", "info", "no-such-model"});

  EXPECT_EQ(run.status, 4);
  EXPECT_EQ(run.out, "");
}

TEST_F(Cli, ReaderThatLeavesEndsTheProgramQuietly) {
  const Outcome run = tessera_.run({"model", "ls"}, Stdout::kClosedPipe);

  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
}

TEST_F(Cli, ReaderThatLeavesAnErrorReportLeavesTheMessage) {
  const Outcome run = tessera_.run({"--json", "versoin"}, Stdout::kClosedPipe);

  EXPECT_THAT(run.err, StartsWith("error: unknown command"));
}

TEST_F(Cli, FullDiskUnderStdoutIsAnError) {
  const Outcome run = tessera_.run({"model", "ls"}, Stdout::kFullDisk);

  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, StartsWith("error: cannot write the output - No space left on device"));
}

TEST_F(Cli, OpenMpIsMadePassiveUnlessTheUserSaysOtherwise) {
  tessera_.set_env("OMP_WAIT_POLICY", "");
  EXPECT_THAT(tessera_.run({"doctor"}).out, HasSubstr("OMP_WAIT_POLICY=passive"));

  tessera_.set_env("OMP_WAIT_POLICY", "active");
  EXPECT_THAT(tessera_.run({"doctor"}).out, HasSubstr("OMP_WAIT_POLICY=active: unset it"));
}

TEST_F(Cli, DoctorFailsOverAModelThatIsNotTheCataloguesFile) {
  EXPECT_EQ(tessera_.run({"doctor"}).status, 0);
  fs::create_directories(tessera_.cache() / "models");
  std::ofstream(tessera_.cache() / "models" / "smollm2-135m.gguf") << "not it";

  const Outcome run = tessera_.run({"doctor"});

  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(
      run.out,
      HasSubstr("FAIL model smollm2-135m is not the file of the catalogue: tessera model rm"));
}

TEST_F(Cli, ModelInfoTakesAPath) {
  const fs::path path = tessera_.cache() / "own.gguf";
  std::ofstream(path) << "abc";

  const json info = json::parse(tessera_.run({"model", "info", path.string(), "--json"}).out);

  EXPECT_EQ(info["bytes"], 3);
  // SHA-256 of "abc", from FIPS 180-2.
  EXPECT_EQ(info["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(Cli, ModelThatIsNotPulledCannotBeRemoved) {
  EXPECT_EQ(tessera_.run({"model", "rm", "smollm2-135m"}).status, 4);
  EXPECT_EQ(tessera_.run({"model", "rm", "no-such-model"}).status, 4);
}

TEST_F(Cli, ModelThatIsPulledIsRemoved) {
  const fs::path path = tessera_.cache() / "models" / "smollm2-135m.gguf";
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "bytes";

  EXPECT_EQ(tessera_.run({"model", "rm", "smollm2-135m"}).status, 0);

  EXPECT_FALSE(fs::exists(path));
}

// A cache with three chunks of 4, 5 and 6 tokens.
class CliCache : public Cli {
 protected:
  CliCache() {
    const std::unique_ptr<Tier> tier =
        make_tier("disk", {.dir = tessera_.cache() / "kv", .limit_bytes = 0});
    for (int i = 0; i < 3; ++i) {
      const KvGeometry geometry{.n_layers = 2, .kv_dim = 8};
      const std::vector<int32_t> ids(4 + i, i);
      std::vector<std::byte> payload(KvChunk::payload_bytes(geometry, 4 + i), std::byte(i));
      ChunkKey key;
      key.digest[0] = std::byte(i + 1);
      const bool was_kept =
          tier->put(key, std::make_shared<KvChunk>(geometry, ids, Lineage{}, std::move(payload)));
      EXPECT_TRUE(was_kept);
    }
  }

  json run_json(std::vector<std::string> args) {
    args.emplace_back("--json");
    return json::parse(tessera_.run(args).out);
  }

  // The blob files.
  std::vector<fs::path> blobs() const {
    std::vector<fs::path> found;
    for (const auto& file : fs::recursive_directory_iterator(tessera_.cache() / "kv")) {
      if (file.is_regular_file()) found.push_back(file.path());
    }
    return found;
  }

  static void flip_byte(const fs::path& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 1));
  }
};

TEST_F(CliCache, StatsCountEntriesBytesAndTokens) {
  uint64_t bytes = 0;
  for (const fs::path& blob : blobs()) bytes += fs::file_size(blob);

  const json tier = run_json({"cache", "stats"})["tiers"][0];

  EXPECT_EQ(tier["entries"], 3);
  EXPECT_EQ(tier["tokens"], 4 + 5 + 6);
  EXPECT_EQ(tier["bytes"], bytes);
  EXPECT_EQ(tier["unreadable"], 0);
}

TEST_F(CliCache, LsNamesEveryEntry) {
  const json entries = run_json({"cache", "ls"})["entries"];

  ASSERT_EQ(entries.size(), 3);
  int n_tokens = 0;
  for (const json& entry : entries) {
    EXPECT_EQ(entry["key"].get<std::string>().size(), 64);
    n_tokens += entry["tokens"].get<int>();
  }
  EXPECT_EQ(n_tokens, 4 + 5 + 6);
}

TEST_F(CliCache, ClearWithoutYesOnlySaysWhatWouldGo) {
  const Outcome run = tessera_.run({"cache", "clear"});

  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, StartsWith("would delete 3 entries"));
  EXPECT_EQ(blobs().size(), 3);
}

TEST_F(CliCache, ClearWithYesDeletesAndCounts) {
  const uint64_t bytes = run_json({"cache", "stats"})["tiers"][0]["bytes"];

  const json result = run_json({"cache", "clear", "--yes"});

  EXPECT_EQ(result["deleted"], 3);
  EXPECT_EQ(result["bytes_freed"], bytes);
  EXPECT_EQ(blobs().size(), 0);
}

TEST_F(CliCache, ClearTakesBlobsWithABrokenHeaderToo) {
  flip_byte(blobs()[0], 0);
  EXPECT_EQ(run_json({"cache", "stats"})["tiers"][0]["unreadable"], 1);

  EXPECT_EQ(run_json({"cache", "clear", "--yes"})["deleted"], 3);

  EXPECT_EQ(blobs().size(), 0);
}

TEST_F(CliCache, VerifyOfASoundCachePassesAndKeepsIt) {
  const Outcome run = tessera_.run({"cache", "verify"});

  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, HasSubstr("3 good, 0 damaged"));
  EXPECT_EQ(blobs().size(), 3);
}

TEST_F(CliCache, VerifyFailsOverAFlippedPayloadByteAndRemovesTheBlob) {
  const fs::path victim = blobs()[1];
  flip_byte(victim, fs::file_size(victim) - 1);

  const Outcome run = tessera_.run({"cache", "verify"});

  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.out, HasSubstr("2 good, 1 damaged"));
  EXPECT_THAT(run.out, HasSubstr("damaged " + victim.filename().string()));
  EXPECT_FALSE(fs::exists(victim));
  EXPECT_EQ(tessera_.run({"cache", "verify"}).status, 0);
}

}  // namespace
}  // namespace tessera
