// The main job as a user meets it, on a tiny model: index, ask, change, damage, kill, and again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/program.h"
#include "retrieval/document_store.h"
#include "support/engine_rig.h"
#include "support/tiny_gguf.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class CliFlow : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new TinyModelFile(TinySpec{}); }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }

  CliFlow() {
    tessera_.set_env("TESSERA_MODELS", "");
    fs::create_directories(docs_);
    write("one.md", "# River\n\n" + words(120, 1) + ".\n\n# City\n\n" + words(90, 2) + ".\n");
    write("two.txt", words(100, 3) + ".\n\n" + words(80, 4) + ".\n");
    write("three.md", words(60, 5) + " zebra.\n");
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(docs_ / name, std::ios::binary) << text;
  }

  // `tessera index` of the folder into the store "s", with the tiny model.
  std::vector<std::string> index_args(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"index", docs_.string(),          "--store", "s",
                                     "-m",    model_->path().string(), "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  json index(const std::vector<std::string>& more = {}, int status = 0) {
    const Outcome run = tessera_.run(index_args(more));
    EXPECT_EQ(run.status, status) << run.err;
    return json::parse(run.out, nullptr, false);
  }

  // No gate passes a model of random weights, so that every policy but the exact ones is forced.
  json ask(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {
        "ask",    "which river is in the city", "--store", "s", "--json", "--max-tokens", "4",
        "--force"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome run = tessera_.run(args);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out, nullptr, false);
  }

  // Whether a question about the word of three.md finds it.
  bool finds_zebra() {
    const Outcome run =
        tessera_.run({"ask", "zebra", "--store", "s", "--json", "--max-tokens", "1"});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out.find("zebra.") != std::string::npos;
  }

  // Chunks on disk; unfinished ones have other names.
  size_t n_blobs() const {
    constexpr size_t kNameLength = 64;
    size_t n = 0;
    std::error_code gone;
    fs::recursive_directory_iterator it(tessera_.cache() / "kv", gone);
    for (; !gone && it != fs::end(it); it.increment(gone))
      n += it->path().filename().string().size() == kNameLength ? 1 : 0;
    return n;
  }

  // Waits until there are `n` chunks on disk. False when the program ended before.
  bool wait_for_blobs(const Running& running, size_t n) const {
    while (n_blobs() < n) {
      if (!Program::is_running(running)) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  json verify() { return json::parse(tessera_.run({"cache", "verify", "--json"}).out); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(tessera_.cache()))
      if (entry.is_regular_file() && !entry.path().string().starts_with(docs_.string()))
        found.push_back(entry.path());
    return found;
  }

  static void expect_whole_account(const json& answer) {
    const json& u = answer["usage"];
    int sum = 0;
    for (const char* part : {"exact", "soft", "independent", "recomputed", "fresh"})
      sum += u[part].get<int>();
    EXPECT_EQ(sum, u["prompt_tokens"]);
    int of_segments = 0;
    for (const json& segment : answer["segments"]) of_segments += segment["tokens"].get<int>();
    EXPECT_EQ(of_segments, u["prompt_tokens"]);
  }

  // Matches of the prompt's chunks, as "independent independent fresh".
  static std::string matches(const json& answer) {
    std::string out;
    for (const json& segment : answer["segments"]) {
      if (segment["kind"] != "chunk") continue;
      out += (out.empty() ? "" : " ") + segment["match"].get<std::string>();
    }
    return out;
  }

  static TinyModelFile* model_;
  Program tessera_;
  fs::path docs_ = tessera_.cache() / "docs";
};

TinyModelFile* CliFlow::model_ = nullptr;

TEST_F(CliFlow, QuestionAfterIndexingLoadsEveryPassage) {
  const json indexed = index();
  EXPECT_EQ(indexed["files"], 3);
  EXPECT_EQ(indexed["chunks_built"], indexed["chunks"]);
  EXPECT_TRUE(indexed["failed"].empty());

  const json answer = ask({"--policy", "reuse"});

  expect_whole_account(answer);
  EXPECT_GT(answer["usage"]["independent"], 0);
  EXPECT_EQ(answer["usage"]["recomputed"], 0);
  EXPECT_THAT(matches(answer), Not(HasSubstr("fresh")));
  EXPECT_GT(answer["completion_tokens"], 0);
}

TEST_F(CliFlow, EpicRecomputesItsShareAndAccountsForIt) {
  index();

  const json answer = ask({"--policy", "epic", "--ratio", "0.25"});

  expect_whole_account(answer);
  const double reused = answer["usage"]["independent"].get<double>();
  const double recomputed = answer["usage"]["recomputed"].get<double>();
  EXPECT_NEAR(recomputed / (reused + recomputed), 0.25, 0.02);
}

TEST_F(CliFlow, SecondIndexComputesNothing) {
  const json first = index();

  const json second = index();

  EXPECT_EQ(second["unchanged"], first["files"]);
  EXPECT_EQ(second["chunks"], first["chunks"]);
  EXPECT_EQ(second["chunks_built"], 0);
  EXPECT_EQ(second["rows_computed"], 0);
}

TEST_F(CliFlow, ChangedFileAloneIsComputedAgain) {
  const json first = index();
  write("three.md", words(60, 6) + " zebra.\n");

  const json second = index();

  EXPECT_EQ(second["unchanged"], first["files"].get<int>() - 1);
  EXPECT_EQ(second["chunks_built"], 1);
}

TEST_F(CliFlow, DryRunCountsWhatIndexingDoesAndLeavesNothing) {
  index({"--dry-run"});  // the layout profile and the digest of the model stay
  const std::vector<fs::path> before = files();

  const json planned = index({"--dry-run"});
  EXPECT_EQ(files(), before);
  EXPECT_FALSE(fs::exists(tessera_.cache() / "data" / "tessera" / "stores"));

  const json done = index();
  for (const char* count : {"files", "chunks", "tokens", "kv_bytes", "kv_bytes_per_token"})
    EXPECT_EQ(planned[count], done[count]) << count;
  EXPECT_EQ(planned["chunks_to_build"], done["chunks_built"]);
}

TEST_F(CliFlow, DryRunCountsTheTimeOfMissingChunksOnly) {
  index();
  EXPECT_EQ(index({"--dry-run"})["chunks_to_build"], 0);
  EXPECT_EQ(index({"--dry-run"})["seconds"], 0);
  write("three.md", words(60, 6) + " zebra.\n");

  const json planned = index({"--dry-run"});

  EXPECT_EQ(planned["chunks_to_build"], 1);
  EXPECT_GT(planned["seconds"], 0);
}

TEST_F(CliFlow, DryRunFailsOverTheFilesThatIndexingFailsOver) {
  write("empty.md", "");
  write("bad.txt", "the river \xC3\x28 city");

  const json planned = index({"--dry-run"}, 1);

  EXPECT_EQ(planned["failed"].size(), 2);
  EXPECT_EQ(planned["failed"], index({}, 1)["failed"]);
}

TEST_F(CliFlow, CompareOfFullWithItselfFindsNoDistance) {
  index();

  const json both = ask({"--compare", "--policy", "full"});

  EXPECT_EQ(both["same_answer"], true);
  EXPECT_NEAR(both["mean_kl"].get<double>(), 0, 1e-6);
  EXPECT_EQ(both["top1"], 1.0);
  expect_whole_account(both["answer"]);
  expect_whole_account(both["full"]);
  EXPECT_EQ(both["full"]["usage"]["fresh"], both["full"]["usage"]["prompt_tokens"]);
}

TEST_F(CliFlow, CompareSaysHowFarReuseIs) {
  index();

  const json both = ask({"--compare", "--policy", "reuse"});

  EXPECT_GT(both["mean_kl"], 0);
  EXPECT_GT(both["positions"], 0);
  EXPECT_GT(both["ttft_ratio"], 0);
  EXPECT_EQ(both["full"]["usage"]["prompt_tokens"], both["answer"]["usage"]["prompt_tokens"]);
}

TEST_F(CliFlow, CompareAllShowsEveryPolicyBehindOneReference) {
  index();

  const json all = ask({"--compare", "all", "--scorer", model_->path().string()});

  std::vector<std::string> names;
  for (const json& one : all["policies"]) {
    names.push_back(one["answer"]["policy"]);
    expect_whole_account(one["answer"]);
    EXPECT_GE(one["mean_kl"], 0.0) << names.back();
    EXPECT_EQ(one["answer"]["usage"]["prompt_tokens"], all["full"]["usage"]["prompt_tokens"]);
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("prefix", "reuse", "epic", "cacheblend", "speccache",
                                            "adacache", "query_aware", "random", "oracle"));
  EXPECT_GT(all["policies"][3]["answer"]["probe_rows"], 0.0) << names[3];
  EXPECT_EQ(all["policies"][4]["answer"]["scorer_rows"], 0.0)
      << "its scores are made before it counts";

  EXPECT_EQ(ask({"--compare", "all"})["policies"].size(), names.size() - 1) << "without a scorer";
}

TEST_F(CliFlow, IndexingWithAScorerLeavesNothingForTheQuestionToRate) {
  index({"--scorer", model_->path().string()});

  const json answer = ask({"--policy", "speccache"});

  EXPECT_EQ(answer["scorer_rows"], 0.0);
  EXPECT_GT(answer["usage"]["recomputed"], 0);
}

TEST_F(CliFlow, PassagesOfAFileAreKeptForTheNextQuestionInAnyOrder) {
  const fs::path file = tessera_.cache() / "p.json";
  const auto ask_file = [&](const json& passages) {
    std::ofstream(file) << passages;
    const Outcome run = tessera_.run({"ask", "which river", "--passages", file.string(), "-m",
                                      model_->path().string(), "--json", "--max-tokens", "2",
                                      "--policy", "reuse", "--force"});
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out, nullptr, false);
  };
  const std::string a = words(40, 7), b = words(50, 8);

  EXPECT_EQ(matches(ask_file({{{"title", "A"}, {"text", a}}, b})), "fresh fresh");

  EXPECT_EQ(matches(ask_file({b, {{"title", "A"}, {"text", a}}, b})),
            "independent independent independent");
}

TEST_F(CliFlow, SlipsAreSaidWithTheirStatus) {
  index();
  const fs::path broken = tessera_.cache() / "broken.json";
  std::ofstream(broken) << "[{\"title\": 1}]";
  const struct {
    std::vector<std::string> args;
    int status;
    std::string words;
  } slips[] = {
      {{"ask", "q", "--store", "s", "--policy", "epik"}, 2, "epic"},
      {{"ask", "q", "--store", "s", "--ratio", "1.5"}, 2, "ratio"},
      {{"ask", "q", "--store", "s", "--ratio", "nan"}, 2, "ratio"},
      {{"ask", "q", "--store", "s", "--temperature", "-1"}, 2, "temperature"},
      {{"ask", "q", "--store", "s", "--top-p", "1.5"}, 2, "top_p"},
      {{"ask", "q", "--store", "s", "--top-k", "0"}, 2, "top-k"},
      {{"ask", "q", "--store", "s", "--sample-top-k", "-1"}, 2, "top_k"},
      {{"ask", "q", "--store", "s", "--min-p", "2"}, 2, "min_p"},
      {{"ask", "q", "--store", "s", "--compare", "--temperature", "1"}, 2, "--compare"},
      {{"ask", "q", "--store", "s", "--anchor", "nowhere"}, 2, "anchor"},
      {{"ask", "", "--store", "s"}, 2, "question"},
      {{"ask", "--store", "s", "q", "--compare", "most"}, 2, "takes 'all'"},
      {{"ask", "q", "--store", "s", "--passages", broken.string()}, 2, "only one"},
      {{"ask", "q"}, 2, "--store"},
      {{"ask", "q", "--passages", broken.string()}, 2, "passage 1"},
      {{"ask", "q", "--passages", "/nonexistent.json"}, 4, "/nonexistent.json"},
      {{"ask", "q", "--store", "other"}, 4, "there are s"},
      {{"ask", "q", "--store", "../s"}, 2, "store name"},
      {{"ask", "q", "--store", "s", "-m", "no-such-model"}, 4, "no-such-model"},
      {{"ask", "q", "--store", "s", "-m", broken.string()}, 3, "broken.json"},
      {{"index", "/nonexistent", "--store", "s"}, 4, "/nonexistent"},
      {{"index", docs_.string(), "--store", "s", "--anchor", "bare"}, 2, "another anchor"},
      {{"index", docs_.string(), "--store", "s", "--chunk-tokens", "64"}, 2, "another chunk size"},
  };
  for (const auto& slip : slips) {
    const Outcome run = tessera_.run(slip.args);
    EXPECT_EQ(run.status, slip.status) << testing::PrintToString(slip.args) << run.err;
    EXPECT_THAT(run.err, HasSubstr(slip.words)) << testing::PrintToString(slip.args);
    EXPECT_EQ(run.out, "");
  }
}

TEST_F(CliFlow, SamplingFromTheLikeliestTokenAloneIsGreedy) {
  index();
  const json greedy = ask();

  EXPECT_EQ(ask({"--temperature", "50", "--top-p", "1", "--sample-top-k", "1"})["text"],
            greedy["text"]);
  EXPECT_EQ(ask({"--temperature", "50", "--top-p", "1", "--min-p", "1"})["text"], greedy["text"]);
}

TEST_F(CliFlow, DeeplyNestedPassagesAreRefused) {
  const fs::path file = tessera_.cache() / "deep.json";
  const std::string open(200'000, '['), close(200'000, ']');
  const struct {
    std::string text, words;
  } cases[] = {{open, "is not JSON"},
               {open + close, "passage 1"},
               {"{\"passages\": " + open + close + "}", "passage 1"}};
  for (const auto& deep : cases) {
    std::ofstream(file) << deep.text;
    const Outcome run = tessera_.run({"ask", "q", "--passages", file.string()});
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr(deep.words));
  }
}

TEST_F(CliFlow, DemoSaysItsSlipsBeforeAModelIsFetched) {
  const Outcome unknown = tessera_.run({"demo", "--policy", "epik"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("epic"));

  const fs::path data = tessera_.cache() / "empty";
  fs::create_directories(data / "demo");
  std::ofstream(data / "demo" / "questions.jsonl").close();
  tessera_.set_env("TESSERA_DATA", data.string());
  const Outcome empty = tessera_.run({"demo"});
  EXPECT_EQ(empty.status, 4);
  EXPECT_THAT(empty.err, HasSubstr("TESSERA_DATA"));
}

// Settings were once written one by one, and a kill left some of them.
TEST_F(CliFlow, StoreWithAPartOfItsSettingsIsANewOne) {
  const fs::path folder = tessera_.cache() / "data" / "tessera" / "stores" / "s";
  fs::create_directories(folder);
  DocumentStore(folder / "store.db").replace_settings({{"model", "another"}});

  index({"--anchor", "bare"});

  EXPECT_THAT(matches(ask()), Not(HasSubstr("fresh")));
  EXPECT_THAT(index({"--anchor", "leadin"}, 2).dump(), HasSubstr("another anchor"));
}

TEST_F(CliFlow, PromptLongerThanTheContextNamesBothNumbersAndCutsNothing) {
  index();

  const Outcome run = tessera_.run({"ask", "which river", "--store", "s", "--ctx", "256"});

  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("256"));
  EXPECT_EQ(run.out, "");
}

TEST_F(CliFlow, StoreOfOneModelRefusesAnother) {
  index();
  const TinyModelFile other(TinySpec{.arch = "qwen2"});

  const Outcome run =
      tessera_.run({"index", docs_.string(), "--store", "s", "-m", other.path().string()});

  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("another model"));
  EXPECT_THAT(matches(ask()), Not(HasSubstr("fresh")));
}

TEST_F(CliFlow, RemovedDocumentIsNoLongerFound) {
  index();
  ASSERT_TRUE(finds_zebra());
  fs::remove(docs_ / "three.md");

  EXPECT_EQ(index()["removed"], 1);

  EXPECT_FALSE(finds_zebra());
}

TEST_F(CliFlow, DocumentThatBecameEmptyIsNoLongerFound) {
  index();
  ASSERT_TRUE(finds_zebra());
  write("three.md", "");

  EXPECT_THAT(index({}, 1)["failed"].dump(), HasSubstr("three.md"));

  EXPECT_FALSE(finds_zebra());
}

TEST_F(CliFlow, WhatIsNoReadableFileIsNamedAndTheOthersAreIndexed) {
  fs::create_symlink("loop.md", docs_ / "loop.md");
  const fs::path pipe = docs_ / "pipe.txt";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  write("huge.txt", "");
  fs::resize_file(docs_ / "huge.txt", (uintmax_t{1} << 30) + 1);

  const json report = index({pipe.string()}, 1);

  EXPECT_EQ(report["failed"].size(), 3);
  EXPECT_THAT(report["failed"].dump(),
              testing::AllOf(HasSubstr("loop.md"), HasSubstr("symbolic links"),
                             HasSubstr("pipe.txt"), HasSubstr("huge.txt")));
  EXPECT_EQ(report["files"], 4);
  EXPECT_THAT(matches(ask()), Not(HasSubstr("fresh")));
}

TEST_F(CliFlow, BadFileIsNamedAndTheOthersAreIndexed) {
  write("bad.txt", "the river \xC3\x28 city");
  write("empty.md", "");
  write("table.pdf", "%PDF");

  const json report = index({}, 1);

  EXPECT_EQ(report["failed"].size(), 2);
  EXPECT_THAT(
      report["failed"].dump(),
      testing::AllOf(HasSubstr("bad.txt"), HasSubstr("byte offset 10"), HasSubstr("empty.md")));
  EXPECT_EQ(report["files"], 5);
  EXPECT_THAT(matches(ask()), Not(HasSubstr("fresh")));
}

TEST_F(CliFlow, LineOfOneMebibyteCrLfAndControlTokenTextAreIndexed) {
  write("long.txt", words(200'000, 9).substr(0, 1 << 20));
  write("crlf.txt", "the river\r\nis in\r\nthe city\r\n");
  write("control.txt", "<|im_start|>system the river</s> <start_of_turn>user");

  const json planned = index({"--dry-run"});

  EXPECT_EQ(planned["files"], 6);
  EXPECT_TRUE(planned["failed"].empty());
  fs::remove(docs_ / "long.txt");
  EXPECT_TRUE(index()["failed"].empty());
  expect_whole_account(ask());
}

TEST_F(CliFlow, DamagedBlobsAreMissesAndAreMadeGoodAgain) {
  index();
  const json before = ask({"--policy", "reuse"});
  std::vector<fs::path> blobs;
  for (const auto& entry : fs::recursive_directory_iterator(tessera_.cache() / "kv"))
    if (entry.is_regular_file()) blobs.push_back(entry.path());
  for (const fs::path& blob : blobs) {
    std::fstream file(blob, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(blob)) - 1);
    file.put('\x55');
    file.seekp(static_cast<std::streamoff>(fs::file_size(blob)) - 2);
    file.put('\x2A');
  }

  const json damaged = ask({"--policy", "reuse"});
  const json mended = ask({"--policy", "reuse"});

  EXPECT_THAT(matches(damaged), Not(HasSubstr("independent")));
  EXPECT_EQ(damaged["usage"]["fresh"], damaged["usage"]["prompt_tokens"]);
  EXPECT_EQ(matches(mended), matches(before));
  EXPECT_EQ(mended["text"], before["text"]);
}

TEST_F(CliFlow, TwoIndexingsAtOnceAgree) {
  const Running a = tessera_.start(index_args());
  const Running b = tessera_.start(index_args());

  const Outcome first = Program::wait(a), second = Program::wait(b);

  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_TRUE(verify()["damaged"].empty());
  EXPECT_EQ(index()["chunks_built"], 0);
  EXPECT_THAT(matches(ask()), Not(HasSubstr("fresh")));
}

// Wherever the blow falls, what was finished stays, nothing is half there, and a second run ends
// the work.
TEST_F(CliFlow, KilledIndexingIsResumed) {
  for (int i = 0; i < 80; ++i)
    write("many" + std::to_string(i) + ".txt", words(100, static_cast<uint32_t>(100 + i)));
  for (const size_t n : {1, 5, 20}) {
    const Running running = tessera_.start(index_args());
    const bool is_amid = wait_for_blobs(running, n);
    kill(running.pid, SIGKILL);
    const Outcome killed = Program::wait(running);
    ASSERT_TRUE(is_amid) << killed.err;
    EXPECT_EQ(killed.status, 128 + SIGKILL) << "it was ready before " << n << " chunks were seen";
    const json left = verify();
    EXPECT_TRUE(left["damaged"].empty()) << "killed after " << n << " chunks";
    EXPECT_GE(left["entries"], n);
  }

  const json resumed = index();

  EXPECT_GT(resumed["chunks_built"], 0);
  EXPECT_LT(resumed["chunks_built"], resumed["chunks"]);
  EXPECT_EQ(index()["chunks_built"], 0);
  EXPECT_TRUE(verify()["damaged"].empty());
  EXPECT_THAT(matches(ask()), Not(HasSubstr("fresh")));
}

TEST_F(CliFlow, InterruptedIndexingSaysSoAndIsResumed) {
  for (int i = 0; i < 300; ++i)
    write("many" + std::to_string(i) + ".txt", words(300, static_cast<uint32_t>(100 + i)));
  const Running running = tessera_.start(index_args());
  const bool is_amid = wait_for_blobs(running, 1);
  kill(running.pid, SIGINT);

  const Outcome interrupted = Program::wait(running);
  ASSERT_TRUE(is_amid) << interrupted.err;
  EXPECT_EQ(interrupted.status, 130);

  for (int i = 5; i < 300; ++i) fs::remove(docs_ / ("many" + std::to_string(i) + ".txt"));
  index();
  EXPECT_THAT(matches(ask()), Not(HasSubstr("fresh")));
}

}  // namespace
}  // namespace tessera
