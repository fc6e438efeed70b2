// `tessera ask` as a user reads it, on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.h"
#include "support/engine_rig.h"
#include "support/tiny_gguf.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class CliAsk : public testing::Test {
 protected:
  CliAsk() { std::ofstream(file_) << json{words(40, 7), words(40, 8), words(40, 9)}; }

  // No gate passes a model of random weights.
  Outcome ask_unforced(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"ask",          "which river",
                                     "--passages",   file_.string(),
                                     "-m",           shared_model_file().path().string(),
                                     "--max-tokens", "2"};
    args.insert(args.end(), more.begin(), more.end());
    Outcome out = tessera_.run(args);
    EXPECT_EQ(out.status, 0) << out.err;
    return out;
  }

  Outcome ask(std::vector<std::string> more) {
    more.emplace_back("--force");
    return ask_unforced(more);
  }

  // What --json says of `policy` in a comparison of all; null: nothing.
  json compared(std::vector<std::string> args, const std::string& policy) {
    args.emplace_back("--json");
    const json all = json::parse(ask(args).out, nullptr, false);
    for (const json& one : all.value("policies", json::array())) {
      if (one["answer"]["policy"] == policy) return one;
    }
    ADD_FAILURE() << policy << " is not in " << all;
    return nullptr;
  }

  Program tessera_;
  const fs::path file_ = tessera_.cache() / "p.json";
};

TEST_F(CliAsk, EverySourceIsShownWithHowItWasFound) {
  const std::vector<std::string> args = {"--policy", "epic", "--ratio", "0.25"};
  const Outcome first = ask(args);

  const Outcome second = ask(args);

  EXPECT_THAT(first.err, HasSubstr("source 3: passage 3 - computed, "));
  EXPECT_THAT(first.err, Not(HasSubstr("independent")));
  EXPECT_THAT(second.err, HasSubstr("source 3: passage 3 - independent, "));
  EXPECT_THAT(second.err, HasSubstr(" of them recomputed"));
  EXPECT_THAT(second.err, HasSubstr(" prompt tokens: "));
  EXPECT_THAT(second.err, HasSubstr(" new"));
}

TEST_F(CliAsk, ModelThatNoGateHasPassedIsAnsweredWithUnderPrefixAndThatIsSaid) {
  const Outcome shown = ask_unforced({});
  const json answer = json::parse(ask_unforced({"--json"}).out, nullptr, false);

  EXPECT_THAT(shown.err, HasSubstr("fallback: answered under prefix, not query_aware - no gate"));
  EXPECT_EQ(answer["policy"], "prefix");
  EXPECT_EQ(answer["fallback"]["wanted"], "query_aware");
  EXPECT_THAT(answer["fallback"]["why"], HasSubstr("'tessera gate'"));
  EXPECT_FALSE(answer.contains("forced"));
}

TEST_F(CliAsk, ForcedPolicyRunsAndIsRecorded) {
  const Outcome shown = ask({"--policy", "epic"});
  const json answer = json::parse(ask({"--policy", "epic", "--json"}).out, nullptr, false);

  EXPECT_THAT(shown.err, HasSubstr("forced: answered under epic - no gate"));
  EXPECT_EQ(answer["policy"], "epic");
  EXPECT_EQ(answer["forced"], true);
  EXPECT_FALSE(answer.contains("fallback"));
}

TEST_F(CliAsk, ComparisonShowsTheWantedPolicyWithoutAGate) {
  const json both =
      json::parse(ask_unforced({"--policy", "epic", "--compare", "--json"}).out, nullptr, false);

  EXPECT_EQ(both["answer"]["policy"], "epic");
}

TEST_F(CliAsk, PassagesThatWereNotReadAreSaid) {
  const std::vector<std::string> early = {"--adaptive", "--adaptive-threshold", "-1"};
  const Outcome shown = ask(early);
  std::vector<std::string> as_json = early;
  as_json.emplace_back("--json");

  const json answer = json::parse(ask(as_json).out, nullptr, false);

  EXPECT_THAT(shown.err, HasSubstr("read 1 of 3 passages in 1 round: confidence "));
  EXPECT_THAT(shown.err, HasSubstr("source 3: passage 3 - not read"));
  ASSERT_EQ(answer["retrieved"].size(), 3);
  EXPECT_EQ(answer["retrieved"][0]["read"], true);
  EXPECT_EQ(answer["retrieved"][1]["read"], false);
  EXPECT_EQ(answer["retrieved"][2]["read"], false);
}

TEST_F(CliAsk, ComparisonTellsAdaptiveContextFromAllPassages) {
  const Outcome both = ask({"--adaptive", "--policy", "full", "--compare"});

  EXPECT_THAT(both.out, HasSubstr("\nfull+adaptive: "));
  EXPECT_THAT(both.err, HasSubstr("against full prefill over all passages"));
}

TEST_F(CliAsk, ComparisonOfAllShowsTheRatioOfEach) {
  const Outcome all = ask({"--compare", "all", "--ratio", "0.25"});

  EXPECT_THAT(all.out, HasSubstr("0.25, alpha 0.08"));
  EXPECT_THAT(all.out, Not(HasSubstr("tuned")));
  EXPECT_THAT(all.err, Not(HasSubstr("not tuned for this model")));
}

TEST_F(CliAsk, ComparisonOfAllSaysWhatIsUntunedOnce) {
  const Outcome all = ask({"--compare", "all", "--adaptive"});

  const std::string line = "untuned: lambda 0.5, kl_scale 1, tau 0.5";
  const size_t first = all.err.find(line);
  ASSERT_NE(first, std::string::npos) << all.err;
  EXPECT_EQ(all.err.find(line, first + 1), std::string::npos) << all.err;
}

TEST_F(CliAsk, SoftRatioIsShownAsItIsUsed) {
  const std::vector<std::string> args = {"--compare", "all",          "--ratio",
                                         "0.02",      "--soft-ratio", "0.5"};

  EXPECT_THAT(ask(args).out, HasSubstr("0.02, alpha 0.02"));
  EXPECT_EQ(compared(args, "adacache")["soft_ratio"], 0.02);
}

TEST_F(CliAsk, RowsAreThoseOfAllRounds) {
  const std::vector<std::string> args = {"--compare", "all", "--adaptive", "--adaptive-threshold",
                                         "2"};
  ask(args);  // stores what it misses
  const std::string table = ask(args).out;

  const json answer = compared(args, "prefix")["answer"];

  ASSERT_EQ(answer["adaptive_context"]["rounds"].size(), 3) << answer;
  int rows = 0;
  for (const json& round : answer["adaptive_context"]["rounds"]) rows += round["rows"].get<int>();
  EXPECT_GT(rows, answer["usage"]["recomputed"].get<int>() + answer["usage"]["fresh"].get<int>());
  const size_t line = table.find("prefix+adaptive");
  ASSERT_NE(line, std::string::npos) << table;
  EXPECT_THAT(table.substr(line, table.find('\n', line) - line),
              HasSubstr(" " + std::to_string(rows) + " "));
}

TEST_F(CliAsk, HelpNamesValuesAloneAndTheOriginOfRatios) {
  const std::string help = tessera_.run({"ask", "--help"}).out;

  EXPECT_THAT(help, HasSubstr("as_paper|exact"));
  EXPECT_THAT(help, HasSubstr("larger|literal|none|seeded"));
  EXPECT_THAT(help, Not(HasSubstr("->")));
  EXPECT_THAT(help, HasSubstr("'tessera tune' found"));
  EXPECT_THAT(help, HasSubstr("independent: computed alone"));
}

TEST_F(CliAsk, ValueWithoutANameIsRefusedWithThoseThereAre) {
  const Outcome run = tessera_.run({"ask", "q", "--store", "s", "--hard-tier", "soft"});

  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("'soft' is none of as_paper|exact"));
}

}  // namespace
}  // namespace tessera
