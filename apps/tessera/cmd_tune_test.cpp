// `tessera tune`, `analyze attention` and `bench trace` as a user meets them, on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "cli/program.h"
#include "support/engine_rig.h"
#include "support/tiny_gguf.h"
#include "tessera/tune_report.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class CliAdaCache : public testing::Test {
 protected:
  CliAdaCache() { write_questions(file_, 4); }

  static void write_questions(const fs::path& file, uint32_t n) {
    std::ofstream out(file);
    for (uint32_t i = 0; i < n; ++i) {
      json passages = json::array();
      for (uint32_t p = 0; p < 4; ++p) {
        passages.push_back(
            {{"title", "title " + std::to_string(i % 2)}, {"text", words(30, 100 * (i % 2) + p)}});
      }
      out << json{{"id", "q" + std::to_string(i)},
                  {"question", "which river is in the city " + words(3, i)},
                  {"answers", {"the river"}},
                  {"passages", passages}}
          << "\n";
    }
  }

  Outcome run(const std::vector<std::string>& command, const std::vector<std::string>& more) {
    std::vector<std::string> all = command;
    for (const std::string& one : {std::string("--file"), file_.string(), std::string("-m"),
                                   shared_model_file().path().string()})
      all.push_back(one);
    all.insert(all.end(), more.begin(), more.end());
    return tessera_.run(all);
  }

  json json_of(const std::vector<std::string>& command, std::vector<std::string> more) {
    more.emplace_back("--json");
    const Outcome result = run(command, more);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }

  static std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // Of every row in the text of a file of rows; none may stand there twice.
  static std::set<std::string> keys_of(const std::string& text) {
    std::set<std::string> keys;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      const json row = json::parse(line, nullptr, false);
      EXPECT_TRUE(row.is_object()) << line;
      if (row.value("kind", "") != "row") continue;
      const json key = {row["task"], row["id"], row["anchor"], row["policy"], row["ratio"]};
      EXPECT_TRUE(keys.insert(key.dump()).second) << line;
    }
    return keys;
  }

  Program tessera_;
  const fs::path file_ = tessera_.cache() / "mine.jsonl";
  const fs::path out_ = tessera_.cache() / "out";
};

TEST_F(CliAdaCache, TuneCountsWithoutRunningAndRefusesWhatHasNoBound) {
  const json cost = json_of({"tune"}, {"--dry-run", "--max-kl", "1", "--out", out_.string()});
  EXPECT_FALSE(cost.is_discarded());
  EXPECT_FALSE(fs::exists(out_));
  const Outcome shown = run({"tune"}, {"--dry-run", "--max-kl", "1", "--policies", "adacache"});
  EXPECT_THAT(shown.out, HasSubstr("4 questions: at most 18 full prefills and 64 with reuse"));
  EXPECT_THAT(shown.out, HasSubstr("32  with reuse  4 questions x (1 + 1 policy x 7 ratios)"));
  EXPECT_THAT(shown.err, HasSubstr("only 4 questions"));
  const Outcome adaptive = run({"tune"}, {"--dry-run", "--max-f1-loss", "1", "--policies", "none"});
  EXPECT_THAT(adaptive.out, HasSubstr("adaptive context"));
  EXPECT_THAT(adaptive.out, testing::Not(HasSubstr("ratios")));
  const Outcome nothing = run({"tune"}, {"--dry-run", "--max-kl", "1", "--policies", "none"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("neither a ratio nor adaptive context"));
  const Outcome unbounded = run({"tune"}, {"--out", out_.string()});
  EXPECT_EQ(unbounded.status, 2);
  EXPECT_THAT(unbounded.err, HasSubstr("--max-kl"));
  EXPECT_EQ(run({"tune"}, {"--max-kl", "1"}).status, 2) << "without a folder to go on from";
}

TEST_F(CliAdaCache, TuneOfAdaptiveContextAloneMeasuresNoRatioAndChecksLengthsFirst) {
  const std::vector<std::string> alone = {"--max-f1-loss", "1", "--policies", "none",
                                          "--max-tokens",  "2", "--out",      out_.string()};
  const json tuned = json_of({"tune"}, alone);
  EXPECT_TRUE(tuned["ratios"].empty());
  EXPECT_FALSE(text_of(out_ / "points.jsonl").empty());
  EXPECT_EQ(keys_of(text_of(out_ / "ratios.jsonl")).size(), 0U);

  std::vector<std::string> cramped = alone;
  cramped.back() = (tessera_.cache() / "cramped").string();
  cramped.insert(cramped.end(), {"--ctx", "128"});
  const Outcome refused = run({"tune"}, cramped);
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("question 'q0' of 'mine'"));
  EXPECT_THAT(refused.err, HasSubstr("--passages, --ctx"));
}

TEST_F(CliAdaCache, TuneByF1LeavesSummariesOut) {
  const fs::path data = tessera_.cache() / "data";
  fs::create_directories(data);
  fs::copy_file(file_, data / "squad.tune.jsonl");
  std::ofstream(data / "qmsum.tune.jsonl")
      << json{{"id", "1"},
              {"query", "what was said"},
              {"passages", {{{"title", "talk"}, {"text", words(30, 1)}}}},
              {"reference", "the river"}};
  const std::vector<std::string> dry = {"tune", "--data", data.string(), "--dry-run"};
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = dry;
    all.insert(all.end(), more.begin(), more.end());
    return tessera_.run(all);
  };
  const Outcome by_f1 = said({"--max-f1-loss", "0.1"});
  EXPECT_THAT(by_f1.err, HasSubstr("qmsum is left out"));
  EXPECT_THAT(by_f1.out, HasSubstr("4 questions"));
  EXPECT_THAT(said({"--max-kl", "0.1"}).out, HasSubstr("5 questions"));
  const Outcome none = said({"qmsum", "--max-f1-loss", "0.1"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no question has a short answer"));
}

TEST_F(CliAdaCache, TuneSaysWrongNamesBeforeWhatIsMissing) {
  const std::string model = shared_model_file().path().string(), file = file_.string();
  const auto error_of = [this](std::vector<std::string> args) {
    args.insert(args.begin(), "tune");
    const Outcome outcome = tessera_.run(args);
    EXPECT_NE(outcome.status, 0);
    return outcome.err;
  };
  EXPECT_THAT(error_of({"--file", file, "-m", model, "--policies", "nope"}), HasSubstr("'nope'"));
  EXPECT_THAT(error_of({"--file", file, "-m", model, "--adaptive-policy", "nope"}),
              HasSubstr("'nope'"));
  EXPECT_THAT(error_of({"--file", "/nope", "-m", model}), HasSubstr("/nope"));
  EXPECT_THAT(error_of({"--file", file, "-m", "/nope.gguf"}), HasSubstr("/nope.gguf"));
}

TEST_F(CliAdaCache, TuneThatMeetsAnotherFolderAsksForOne) {
  const std::vector<std::string> args = {"--max-kl", "100",   "--policies",
                                         "epic",     "--out", out_.string()};
  fs::create_directories(out_);
  std::ofstream(out_ / "ratios.jsonl") << "my notes\n";

  const Outcome refused = run({"tune"}, args);

  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("ratios.jsonl is no file of an eval run - give another folder "
                                     "to --out"));
}

TEST_F(CliAdaCache, ProfileThatCannotBeReadIsKeptBesideTheNewOne) {
  const std::vector<std::string> analyze = {"analyze", "attention"};
  const std::vector<std::string> args = {"--limit", "2", "--write-profile"};
  ASSERT_EQ(run(analyze, args).status, 0);
  const fs::path folder = tessera_.cache() / "data" / "tessera" / "profiles";
  const fs::path profile = fs::directory_iterator(folder)->path();
  std::ofstream(profile) << "my notes";

  const Outcome again = run(analyze, args);

  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.err, HasSubstr("is kept as " + profile.string() + ".damaged"));
  EXPECT_EQ(text_of(profile.string() + ".damaged"), "my notes");
  EXPECT_THAT(text_of(profile), HasSubstr("sink_layer"));
}

TEST_F(CliAdaCache, AnalysisTriesItsThreeFilesBeforeTheRun) {
  for (const char* name : {"attention.json", "attention.svg", "attention.png"}) {
    const fs::path out = out_ / name;  // a folder for each
    fs::create_directories(out / name);
    const Outcome refused = tessera_.run({"analyze", "attention", "--file", file_.string(), "-m",
                                          "/nope.gguf", "--out", out.string()});
    EXPECT_THAT(refused.err, HasSubstr(std::string(name) + " - it is a folder"));
  }
}

TEST_F(CliAdaCache, TuneWritesAProfileThatAskUsesAndARerunMeasuresNothing) {
  const std::vector<std::string> tune = {"--max-kl",   "100",        "--max-f1-loss", "1",
                                         "--policies", "adacache",   "--max-tokens",  "4",
                                         "--out",      out_.string()};
  json_of({"tune"}, tune);
  const std::string ratios = text_of(out_ / "ratios.jsonl");
  const std::string points = text_of(out_ / "points.jsonl");
  ASSERT_FALSE(ratios.empty());
  ASSERT_FALSE(points.empty());
  const json again = json_of({"tune"}, tune);
  EXPECT_EQ(text_of(out_ / "ratios.jsonl"), ratios);
  EXPECT_EQ(text_of(out_ / "points.jsonl"), points);

  // Any loss is allowed, so that the least is recomputed.
  const std::vector<std::string> ask = {"ask",        "which river",
                                        "--passages", file_.string() + ".p",
                                        "-m",         shared_model_file().path().string(),
                                        "--policy",   "adacache",
                                        "--force"};
  std::ofstream(file_.string() + ".p") << json{words(40, 7), words(40, 8), words(40, 9)};
  std::vector<std::string> twice = ask;
  ASSERT_EQ(tessera_.run(ask).status, 0);  // stores what it misses
  const Outcome tuned = tessera_.run(ask);
  EXPECT_THAT(tuned.err, HasSubstr("beta 0.02 (4 questions, "));
  EXPECT_THAT(tuned.err, testing::Not(HasSubstr("beta 0.15")));
  std::vector<std::string> all = ask;
  all.insert(all.end(), {"--compare", "all"});
  const Outcome compared = tessera_.run(all);
  EXPECT_THAT(compared.out, HasSubstr("0.02 (tuned), alpha "));
  EXPECT_THAT(compared.err, HasSubstr("while that of adacache is"));
  twice.emplace_back("--json");
  const json answer = json::parse(tessera_.run(twice).out, nullptr, false);
  ASSERT_FALSE(answer.is_discarded());
}

// More questions than are measured before the signal comes; of them a rerun ends with four.
TEST_F(CliAdaCache, StoppedTuneNamesThePartAndGoesOn) {
  const fs::path questions = tessera_.cache() / "many.jsonl", rows = out_ / "ratios.jsonl";
  write_questions(questions, 200);
  std::vector<std::string> args = {
      "tune",     "--file", questions.string(), "-m", shared_model_file().path().string(),
      "--max-kl", "100",    "--max-f1-loss",    "1",  "--policies",
      "adacache", "--out",  out_.string()};
  const Running running = tessera_.start(args);
  const auto is_amid = [&] { return text_of(rows).find('\n') != std::string::npos; };
  while (!is_amid() && Program::is_running(running))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(running.pid, SIGINT);

  const Outcome stopped = Program::wait(running);

  ASSERT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("of 3: "));
  EXPECT_THAT(stopped.err, HasSubstr("is kept in " + out_.string()));
  const std::string kept = text_of(rows);
  ASSERT_FALSE(keys_of(kept).empty());
  args.insert(args.end(), {"--limit", "4"});
  const Outcome finished = tessera_.run(args);
  EXPECT_EQ(finished.status, 0) << finished.err;
  const std::string all = text_of(rows);
  EXPECT_EQ(all.substr(0, kept.size()), kept);
  EXPECT_GE(keys_of(all).size(), 4U * (1 + kTuneRatios.size()));
}

TEST_F(CliAdaCache, TuneLeavesTheUsersKvAlone) {
  std::ofstream(file_.string() + ".p") << json{words(40, 7), words(40, 8)};
  ASSERT_EQ(tessera_
                .run({"ask", "which river", "--passages", file_.string() + ".p", "-m",
                      shared_model_file().path().string(), "--policy", "adacache", "--force"})
                .status,
            0);
  const std::string before = tessera_.run({"cache", "ls"}).out;
  json_of({"tune"}, {"--max-kl", "100", "--policies", "adacache", "--max-tokens", "2", "--out",
                     out_.string()});
  EXPECT_EQ(tessera_.run({"cache", "stats", "--json"}).status, 0);
  // The ages in the last column differ.
  EXPECT_EQ(std::count(before.begin(), before.end(), '\n'), [&] {
    const std::string after = tessera_.run({"cache", "ls"}).out;
    return std::count(after.begin(), after.end(), '\n');
  }());
}

TEST_F(CliAdaCache, AnalysisWritesNumbersAndTwoPictures) {
  const json report = json_of({"analyze", "attention"}, {"--limit", "2", "--out", out_.string()});
  EXPECT_FALSE(report.is_discarded());
  EXPECT_FALSE(json::parse(text_of(out_ / "attention.json"), nullptr, false).is_discarded());
  EXPECT_THAT(text_of(out_ / "attention.svg"), HasSubstr("</svg>"));
  EXPECT_EQ(text_of(out_ / "attention.png").substr(1, 3), "PNG");
  EXPECT_EQ(run({"analyze", "attention"}, {"--passages", "2"}).status, 2);

  const Outcome kept = run({"analyze", "attention"}, {"--limit", "2", "--write-profile"});
  EXPECT_THAT(kept.err, HasSubstr(" has sink layer "));
  EXPECT_EQ(kept.err.find("clear sink") != std::string::npos,
            kept.out.find("no clear sink") != std::string::npos)
      << kept.out << kept.err;
}

TEST_F(CliAdaCache, TraceAnswersAStreamUnderEveryConfiguration) {
  const json report = json_of({"bench", "trace"}, {"--requests", "3", "--top-k", "3",
                                                   "--max-tokens", "2", "--out", out_.string()});
  ASSERT_TRUE(report.contains("results"));
  std::ifstream rows(out_ / "trace.jsonl");
  size_t n = 0;
  for (std::string line; std::getline(rows, line);) {
    const json row = json::parse(line, nullptr, false);
    ASSERT_FALSE(row.is_discarded()) << line;
    n += row["kind"] == "run" ? 0 : 1;
  }
  EXPECT_EQ(n, 3U * 7U);
  EXPECT_EQ(run({"bench", "trace"}, {"--requests", "5"}).status, 2) << "there are four questions";
  EXPECT_EQ(run({"bench", "trace"}, {"--configs", "nonsense"}).status, 2);
}

TEST_F(CliAdaCache, NovelTraceLeavesOutQuestionsWithoutAWholeList) {
  std::ofstream(file_, std::ios::app)
      << json{{"id", "short"},
              {"question", "zeppelin"},
              {"answers", {"none"}},
              {"passages", {{{"title", ""}, {"text", "a zeppelin"}}}}}
      << "\n";
  // Each question comes more than once, so one with a single passage would have no order left.
  const Outcome result =
      run({"bench", "trace"}, {"--novel", "--requests", "12", "--top-k", "3", "--configs",
                               "adacache", "--max-tokens", "2", "--out", out_.string()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("top-3: 4 of 5 questions are asked"));
  EXPECT_THAT(text_of(out_ / "trace.jsonl"), testing::Not(HasSubstr("\"short\"")));
}

TEST_F(CliAdaCache, LoadQueuesTheStreamAtEachRateAndChecksItInRealTime) {
  const json report =
      json_of({"bench", "load"}, {"--requests",   "4",        "--top-k",        "3",
                                  "--max-tokens", "2",        "--configs",      "reuse,query_aware",
                                  "--rates",      "0.5,1000", "--goodput",      "ttft:60000",
                                  "--quality",    "kl:1000",  "--runs",         "20",
                                  "--check-rate", "20",       "--check-config", "reuse"});
  ASSERT_TRUE(report.contains("load"));
  EXPECT_EQ(report["seeds"], json({0, 1}));
  EXPECT_EQ(report["run"]["store"], "warm");
  const json& load = report["load"];
  ASSERT_EQ(load["configs"].size(), 3U) << "full prefill always runs";
  for (const json& config : load["configs"]) {
    ASSERT_EQ(config["requests"].size(), 4U);
    double total_ms = 0;
    for (const json& request : config["requests"]) {
      EXPECT_GT(request["first_token_ms"], 0);
      EXPECT_GE(request["answer_ms"], request["first_token_ms"]);
      EXPECT_GE(request["total_ms"], request["answer_ms"]);
      EXPECT_EQ(request["is_good"], true);
      total_ms += request["total_ms"].get<double>();
    }
    EXPECT_NEAR(config["capacity"], 4000 / total_ms, 1e-6);
    EXPECT_EQ(config["holds_at_any_rate"], true) << "a minute is long for four of them";
    ASSERT_EQ(config["at"].size(), 2U);
    EXPECT_LE(config["at"][0]["wait_ms"]["value"], config["at"][1]["wait_ms"]["value"]);
    EXPECT_EQ(config["at"][1]["quality_goodput"], config["at"][1]["goodput"]);
  }
  const json& check = load["check"];
  EXPECT_EQ(check["config"], "reuse");
  EXPECT_EQ(check["requests"].size(), 4U);
  EXPECT_GT(check["measured"]["throughput"], 0);
  EXPECT_LT(check["recursion_off_ms"], 500) << "waits follow from the run's own times";
}

TEST_F(CliAdaCache, LoadTakesArrivalsOfATraceAndDefaults) {
  const fs::path trace = tessera_.cache() / "arrivals.jsonl";
  for (int i = 0; i < 6; ++i) {
    std::ofstream(trace, std::ios::app) << json{{"timestamp", 100 * i * i}} << "\n";
  }
  const Outcome result =
      run({"bench", "load"}, {"--requests", "3", "--top-k", "2", "--max-tokens", "2", "--configs",
                              "prefix", "--store", "filling", "--arrivals", trace.string()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 requests, one at a time in the order of arrival, filling"));
  EXPECT_THAT(result.out, HasSubstr("stretches of " + trace.string()));
}

TEST_F(CliAdaCache, LoadSaysItsSlipsBeforeItMeasures) {
  const std::vector<std::vector<std::string>> slips = {
      {"--goodput", "800"},
      {"--goodput", "ttft:-1"},
      {"--goodput", "ttft:nan"},
      {"--quality", "f1:2"},
      {"--rates", "0"},
      {"--rates", "nan"},
      {"--check-rate", "-1"},
      {"--store", "hot"},
      {"--store", "warm", "--store", "cold"},
      {"--requests", "5"},
      {"--configs", "nonsense"},
      {"--arrivals", file_.string()},
      {"--check-rate", "1", "--check-config", "epic"}};
  for (const std::vector<std::string>& slip : slips) {
    const Outcome result = run({"bench", "load"}, slip);
    EXPECT_EQ(result.status, 2) << testing::PrintToString(slip) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(run({"bench", "load"}, {"--arrivals", "/nowhere"}).status, 4);
}

TEST_F(CliAdaCache, GenerationsStayAtOneApproximation) {
  const json report = json_of({"bench", "trace"}, {"--requests", "2", "--top-k", "3",
                                                   "--max-tokens", "2", "--generations", "3"});
  size_t n_read = 0;
  for (const json& r : report["results"]) {
    const std::string name = r["name"];
    if (name.find("adacache greatest depth") == std::string::npos) continue;
    EXPECT_LE(r["value"], 1);
    ++n_read;
  }
  EXPECT_EQ(n_read, 1U);
}

}  // namespace
}  // namespace tessera
