// `tessera eval` as a user meets it, on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/program.h"
#include "support/engine_rig.h"
#include "support/tiny_gguf.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class CliEval : public testing::Test {
 protected:
  CliEval() {
    write_questions(file_, 3);
    fs::create_directories(data_);
    write_questions(data_ / "squad.dev.jsonl", 2);
    write_questions(data_ / "hotpotqa.dev.jsonl", 2);
  }

  static void write_questions(const fs::path& path, uint32_t n) {
    std::ofstream out(path);
    for (uint32_t i = 0; i < n; ++i) {
      json passages = json::array();
      for (uint32_t p = 0; p < 3; ++p)
        passages.push_back({{"title", "title"}, {"text", words(30, 10 * i + p)}});
      out << json{{"id", "q" + std::to_string(i)},
                  {"question", "which river is in the city"},
                  {"answers", {"the river"}},
                  {"passages", passages}}
          << "\n";
    }
  }

  // Questions without passages, and passages that share words with them.
  void write_choices() const {
    std::ofstream choices(data_ / "mmlu.dev.jsonl"), corpus(corpus_);
    for (uint32_t i = 0; i < 2; ++i) {
      choices << json{{"id", "c" + std::to_string(i)},
                      {"question", "which river is in the city"},
                      {"choices", {"the first", "one of the two", "three"}},
                      {"answer", i}}
              << "\n";
    }
    for (uint32_t i = 0; i < 4; ++i)
      corpus << json{{"title", "river"}, {"text", words(20, 100 + i)}} << "\n";
  }
  std::vector<std::string> choice_args(const std::vector<std::string>& more) const {
    std::vector<std::string> out = {
        "eval",       "--data",     data_.string(),
        "--tasks",    "mmlu",       "--policies",
        "reuse,epic", "--baseline", "reuse",
        "--anchors",  "bare",       "--max-tokens",
        "2",          "-m",         shared_model_file().path().string()};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  std::vector<std::string> args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> out = {"eval",
                                    "--file",
                                    file_.string(),
                                    "-m",
                                    shared_model_file().path().string(),
                                    "--policies",
                                    "reuse,query_aware,epic",
                                    "--anchors",
                                    "leadin",
                                    "--max-tokens",
                                    "4"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  json run(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = args(more);
    all.emplace_back("--json");
    const Outcome result = tessera_.run(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }

  size_t n_rows(const fs::path& path) const {
    std::ifstream in(path);
    size_t n = 0;
    for (std::string line; std::getline(in, line);)
      n += line.starts_with(R"({"kind":"row")") && !in.eof() ? 1 : 0;
    return n;
  }

  Program tessera_;
  const fs::path file_ = tessera_.cache() / "mine.jsonl";
  const fs::path data_ = tessera_.cache() / "qa";
  const fs::path out_ = tessera_.cache() / "run.jsonl";
  const fs::path corpus_ = tessera_.cache() / "corpus.jsonl";
};

TEST_F(CliEval, JsonHasEveryPolicyOverEveryQuestion) {
  const json report = run();

  EXPECT_EQ(report["complete"], true);
  EXPECT_EQ(report["rows"], report["rows_planned"]);
  EXPECT_EQ(report["config"]["max_tokens"], 4);
  EXPECT_EQ(report["config"]["scorer_kv"], false);
  EXPECT_FALSE(report["config"]["commit"].get<std::string>().empty());
  ASSERT_EQ(report["groups"].size(), 1U);
  const json& group = report["groups"][0];
  EXPECT_EQ(group["task"], "mine");
  EXPECT_EQ(group["anchor"], "leadin");
  std::vector<std::string> names;
  for (const json& line : group["policies"]) {
    names.push_back(line["policy"]);
    EXPECT_EQ(line["n"], 3);
    EXPECT_LE(line["metrics"]["kl"]["low"], line["metrics"]["kl"]["high"]);
  }
  EXPECT_THAT(names, testing::ElementsAre("full", "reuse", "epic", "query_aware"));
  EXPECT_EQ(group["policies"][0]["metrics"]["kl"]["value"], 0);
  EXPECT_GT(group["policies"][1]["metrics"]["kl"]["value"], 0);
  EXPECT_TRUE(group["policies"][1]["differences"].contains("kl"));
}

TEST_F(CliEval, TableHasALinePerPolicyAndTheBaselineInItsTitle) {
  const Outcome shown = tessera_.run(args({"--baseline", "epic"}));

  EXPECT_EQ(shown.status, 0) << shown.err;
  for (const char* text : {"mine, anchor leadin", "KL - epic", "full", "reuse", "query_aware",
                           "TTFT ratio", "rows / N", "gold NLL"})
    EXPECT_THAT(shown.out, HasSubstr(text));
}

TEST_F(CliEval, TasksAreReadFromTheDataFolder) {
  const Outcome shown =
      tessera_.run({"eval", "--data", data_.string(), "--limit", "1", "--policies", "reuse",
                    "--anchors", "bare,preamble", "-m", shared_model_file().path().string(),
                    "--json", "--max-tokens", "2", "--passages", "2", "--ratios", "0.1,0.5"});

  ASSERT_EQ(shown.status, 0) << shown.err;
  const json report = json::parse(shown.out);
  std::vector<std::string> names;
  for (const json& group : report["groups"])
    names.push_back(group["task"].get<std::string>() + " " + group["anchor"].get<std::string>());
  EXPECT_THAT(names, testing::ElementsAre("hotpotqa bare", "hotpotqa preamble", "squad bare",
                                          "squad preamble"));
  EXPECT_EQ(report["rows"], 2 * (1 + 2 * 2));
}

TEST_F(CliEval, DataMayHoldTheFoldersOfTheTasks) {
  const Outcome shown =
      tessera_.run({"eval", "--data", tessera_.cache().string(), "--tasks", "squad", "--limit", "1",
                    "--policies", "reuse", "--anchors", "bare", "-m",
                    shared_model_file().path().string(), "--max-tokens", "2", "--json"});

  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(json::parse(shown.out)["groups"][0]["task"], "squad");
}

TEST_F(CliEval, ChoicesAreAskedOverRetrievedPassages) {
  write_choices();
  const Outcome shown = tessera_.run(
      choice_args({"--retrieve", "3", "--corpus", corpus_.string(), "--out", out_.string()}));
  const Outcome again = tessera_.run(choice_args(
      {"--retrieve", "3", "--corpus", corpus_.string(), "--out", out_.string(), "--json"}));
  const Outcome other = tessera_.run(
      choice_args({"--retrieve", "2", "--corpus", corpus_.string(), "--out", out_.string()}));

  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::AllOf(HasSubstr("accuracy"), testing::Not(HasSubstr("F1")),
                                        testing::Not(HasSubstr("ROUGE"))));
  const json report = json::parse(again.out);
  EXPECT_EQ(report["config"]["retrieve"], 3);
  EXPECT_EQ(report["config"]["corpus_digest"].get<std::string>().size(), 64U);
  const json& metrics = report["groups"][0]["policies"][1]["metrics"];
  EXPECT_EQ(metrics["accuracy"]["n"], 2);
  EXPECT_FALSE(metrics.contains("f1"));
  EXPECT_TRUE(metrics.contains("gold_nll_gap"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("retrieve (3 there, 2 now)"));
}

// A needle's question is about its own passages, of which search would find others' as well.
TEST_F(CliEval, NeedlesAreMeasuredWhereTheyAreNamedAndNeverOverFoundPassages) {
  std::ofstream novel(data_ / "frankenstein.txt");
  for (int i = 0; i < 2000; ++i) novel << "The ship of the year " << i << " went north again. ";
  novel.close();
  const std::vector<std::string> common = {
      "eval",      "--data",     data_.string(),
      "--limit",   "1",          "--policies",
      "reuse",     "--baseline", "reuse",
      "--anchors", "bare",       "--max-tokens",
      "2",         "-m",         shared_model_file().path().string(),
      "--json"};
  const auto tasks_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = tessera_.run(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false)["session"]["tasks"];
  };
  EXPECT_EQ(tasks_of({}), (json{"squad", "hotpotqa"}));
  EXPECT_EQ(tasks_of({"--retrieve", "2"}), (json{"squad", "hotpotqa"}));
  std::vector<std::string> mixed = common;
  mixed.insert(mixed.end(), {"--tasks", "needle", "--retrieve", "2"});

  const Outcome refused = tessera_.run(mixed);

  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("each question of 'needle' is about its own passages"));
}

TEST_F(CliEval, SummariesThatAreCutShortAreSaid) {
  std::ofstream(data_ / "qmsum.dev.jsonl")
      << json{{"id", "1"},
              {"query", "what was said"},
              {"passages", {{{"title", "talk"}, {"text", words(30, 1)}}}},
              {"reference", "the river"}};
  const std::vector<std::string> asked = {"eval",
                                          "--data",
                                          data_.string(),
                                          "--tasks",
                                          "qmsum",
                                          "--policies",
                                          "reuse",
                                          "--baseline",
                                          "reuse",
                                          "--anchors",
                                          "bare",
                                          "-m",
                                          shared_model_file().path().string()};
  std::vector<std::string> short_one = asked, long_one = asked;
  short_one.insert(short_one.end(), {"--max-tokens", "2"});
  long_one.insert(long_one.end(), {"--max-tokens", "128"});

  const Outcome said = tessera_.run(short_one), quiet = tessera_.run(long_one);

  EXPECT_THAT(said.err, HasSubstr("qmsum: answers of 2 tokens cut summaries short"));
  EXPECT_THAT(said.out, HasSubstr("ROUGE-L"));
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_EQ(quiet.err.find("cut summaries short"), std::string::npos);
}

TEST_F(CliEval, LongBenchFileIsATaskOfItsDataSet) {
  const fs::path file = tessera_.cache() / "any.jsonl";
  std::ofstream(file) << json{{"input", "which river is in the city"},
                              {"context",
                               "Passage 1:\n" + words(20, 1) + "\nPassage 2:\n" + words(20, 2)},
                              {"answers", {"the river"}},
                              {"dataset", "samsum"},
                              {"all_classes", nullptr},
                              {"_id", "x"}}
                      << "\n";
  const Outcome shown =
      tessera_.run({"eval", "--longbench", file.string(), "--policies", "reuse", "--anchors",
                    "bare", "-m", shared_model_file().path().string(), "--max-tokens", "2"});

  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::AllOf(HasSubstr("samsum, anchor bare"), HasSubstr("ROUGE-L")));
}

TEST_F(CliEval, FinishedRowsAreNotMeasuredAgain) {
  const json first = run({"--out", out_.string(), "--limit", "2"});
  const auto size = fs::file_size(out_);

  const json second = run({"--out", out_.string(), "--limit", "2"});
  EXPECT_EQ(second["groups"], first["groups"]);
  EXPECT_EQ(fs::file_size(out_), size);

  EXPECT_EQ(run({"--out", out_.string()})["groups"][0]["policies"][0]["n"], 3);
  EXPECT_EQ(n_rows(out_), 3U * 4);
}

TEST_F(CliEval, OtherSettingsForOneFileAreRefusedByName) {
  run({"--out", out_.string(), "--limit", "1"});

  const Outcome other = tessera_.run(args({"--out", out_.string(), "--limit", "1", "--seed", "7"}));

  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("seed (0 there, 7 now)"));
}

TEST_F(CliEval, RowsOfOneFileAreOfOneChunkRegimeAndOneLeadIn) {
  const json native = run({"--out", out_.string(), "--limit", "1"});
  EXPECT_FALSE(native["config"].contains("chunk_tokens"));

  const Outcome other =
      tessera_.run(args({"--out", out_.string(), "--limit", "1", "--chunk-tokens", "16"}));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("chunk_tokens"));
  const Outcome longer =
      tessera_.run(args({"--out", out_.string(), "--limit", "1", "--leadin-tokens", "32"}));
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.err, HasSubstr("leadin_tokens (64 there, 32 now)"));

  EXPECT_EQ(run({"--limit", "1", "--chunk-tokens", "64"})["config"]["chunk_tokens"], 64);
}

TEST_F(CliEval, BaselineThatIsNotMeasuredIsSaid) {
  const Outcome with = tessera_.run(args({"--limit", "1", "--baseline", "epic"}));
  const Outcome without = tessera_.run(args({"--limit", "1", "--baseline", "random"}));

  EXPECT_EQ(without.status, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("the baseline random is not among"));
  EXPECT_THAT(with.err, testing::Not(HasSubstr("baseline")));
}

TEST_F(CliEval, QuestionThatIsTooLongIsNamedBeforeAnyIsMeasured) {
  const Outcome refused = tessera_.run(args({"--out", out_.string(), "--ctx", "100"}));

  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("'q0' of 'mine'"), HasSubstr("--passages")));
  EXPECT_EQ(n_rows(out_), 0U);
}

TEST_F(CliEval, ReferenceLimitOfZeroKeepsNothing) {
  run({"--limit", "1", "--reference-limit", "0"});

  EXPECT_FALSE(fs::exists(tessera_.cache() / "eval"));
}

TEST_F(CliEval, KilledRunIsResumed) {
  write_questions(file_, 30);
  const std::vector<std::string> command = args({"--out", out_.string()});
  const Running running = tessera_.start(command);
  while (n_rows(out_) < 6 && Program::is_running(running))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(running.pid, SIGKILL);
  ASSERT_EQ(Program::wait(running).status, 128 + SIGKILL) << "it was ready before it was killed";
  const size_t n_before = n_rows(out_);
  EXPECT_GE(n_before, 6U);
  EXPECT_LT(n_before, 30U * 4);

  const json resumed = run({"--out", out_.string()});

  EXPECT_EQ(resumed["complete"], true);
  EXPECT_EQ(n_rows(out_), 30U * 4);
}

TEST_F(CliEval, InterruptedRunPrintsWhatIsReady) {
  write_questions(file_, 200);
  const Running running = tessera_.start(args({"--out", out_.string()}));
  while (n_rows(out_) < 6 && Program::is_running(running))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(running.pid, SIGINT);

  const Outcome interrupted = Program::wait(running);

  EXPECT_EQ(interrupted.status, 130) << interrupted.err;
  EXPECT_THAT(interrupted.out, HasSubstr("mine, anchor leadin"));
  EXPECT_THAT(interrupted.err, HasSubstr("interrupted"));
}

TEST_F(CliEval, SlipsAreSaidWithTheirStatus) {
  const fs::path bad = tessera_.cache() / "bad.jsonl";
  std::ofstream(bad) << "{\"id\": 1}\n";
  const std::string file = file_.string(), model = shared_model_file().path().string();
  write_choices();
  fs::create_directories(tessera_.cache() / "other");
  const fs::path twin = tessera_.cache() / "other" / "mine.jsonl";
  fs::copy_file(file_, twin);
  const struct {
    std::vector<std::string> args;
    int status;
    std::string words;
  } slips[] = {
      {{"eval"}, 2, "--data"},
      {{"eval", "--tasks", "squad", "--file", file}, 2, "--data"},
      {{"eval", "--data", data_.string(), "--tasks", "sqad"}, 2, "squad"},
      {{"eval", "--data", data_.string(), "--split", "test"}, 4, "squad.test.jsonl"},
      {{"eval", "--file", "/nonexistent.jsonl"}, 4, "/nonexistent.jsonl"},
      {{"eval", "--file", bad.string()}, 2, "bad.jsonl line 1"},
      {{"eval", "--file", file, "--file", twin.string()}, 2, "'mine'"},
      {{"eval", "--longbench", file}, 2, "mine.jsonl line 1"},
      {{"eval", "--data", data_.string(), "--tasks", "mmlu"}, 2, "'mmlu' have no passages"},
      {{"eval", "--data", data_.string(), "--tasks", "mmlu", "--retrieve", "2"}, 2, "--corpus"},
      {{"eval", "--file", file, "--corpus", corpus_.string()}, 2, "--retrieve K"},
      {{"eval", "--file", file, "--retrieve", "2", "--passages", "1"}, 2, "--passages"},
      {{"eval", "--file", file, "--retrieve", "2", "--corpus", "/no.jsonl"}, 4, "/no.jsonl"},
      {{"eval", "--file", file, "--policies", "epik"}, 2, "epic"},
      {{"eval", "--file", file, "--ratios", "0.1,1.5"}, 2, "ratio"},
      {{"eval", "--file", file, "--anchors", "nowhere"}, 2, "anchors"},
      {{"eval", "--file", file, "--baseline", "epik"}, 2, "epic"},
      {{"eval", "--file", file, "--resamples", "1"}, 2, "resamples"},
      {{"eval", "--file", file, "--chunk-tokens", "8"}, 2, "chunk-tokens"},
      {{"eval", "--file", file, "--leadin-tokens", "301"}, 2, "leadin-tokens"},
      {{"eval", "--file", file, "-m", "no-such-model"}, 4, "no-such-model"},
      {{"eval", "--file", file, "-m", model, "--out", bad.string()}, 2, "no file of an eval run"},
      {{"eval", "--file", file, "-m", model, "--out", "/nonexistent/run.jsonl"}, 1, "/nonexistent"},
  };
  for (const auto& slip : slips) {
    const Outcome said = tessera_.run(slip.args);
    EXPECT_EQ(said.status, slip.status) << testing::PrintToString(slip.args) << said.err;
    EXPECT_THAT(said.err, HasSubstr(slip.words)) << testing::PrintToString(slip.args);
    EXPECT_EQ(said.out, "");
  }
}

}  // namespace
}  // namespace tessera
