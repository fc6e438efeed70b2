// `tessera report` as a user meets it, on small files of runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.h"
#include "eval/report_testing.h"
#include "eval/run_log.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using report_testing::full_row;
using report_testing::row;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliReport : public testing::Test {
 protected:
  CliReport() {
    write(first_, 32, 1.0);
    write(second_, 64, 0.25);
  }

  // Two questions under three policies; epic's KL is `kl` on the first of them.
  static void write(const fs::path& path, int max_tokens, double kl) {
    RunLog log(path, {{{"max_tokens", max_tokens}, {"seed", 0}}, {{"model", "small"}}});
    for (const char* id : {"a", "b"}) {
      log.add(full_row(id));
      log.add(row(id, "query_aware", 0.15, 0.125, 2));
      log.add(row(id, "epic", 0.15, id == std::string("a") ? kl : 0.5, 4));
    }
  }

  static std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Program tessera_;
  const fs::path first_ = tessera_.cache() / "first.jsonl";
  const fs::path second_ = tessera_.cache() / "second.jsonl";
  const fs::path out_ = tessera_.cache() / "out";
};

TEST_F(CliReport, PrintsTheTableOfARunAndItsFrontier) {
  const Outcome shown = tessera_.run({"report", first_.string()});

  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("squad, anchor leadin"), HasSubstr("KL - query_aware"),
                               HasSubstr("0.7500 [0.5000, 1.0000]"),
                               HasSubstr("On the frontier: full, epic 0.15, query_aware 0.15.")));
  EXPECT_EQ(shown.err, "");
}

TEST_F(CliReport, JsonHasEveryRunWithItsFrontier) {
  const Outcome shown = tessera_.run({"report", first_.string(), second_.string(), "--json"});

  ASSERT_EQ(shown.status, 0) << shown.err;
  const json report = json::parse(shown.out);
  ASSERT_EQ(report["runs"].size(), 2);
  EXPECT_EQ(report["runs"][1]["config"]["max_tokens"], 64);
  EXPECT_EQ(report["runs"][1]["sessions"][0]["model"], "small");
  EXPECT_EQ(report["runs"][0]["rows"], 6);
  const json& group = report["runs"][0]["groups"][0];
  EXPECT_EQ(group["policies"][1]["metrics"]["kl"]["value"], 0.75);
  ASSERT_EQ(group["frontier"].size(), 3);
  EXPECT_EQ(group["frontier"][0]["policy"], "full");
  EXPECT_EQ(group["frontier"][1]["policy"], "epic");
  EXPECT_EQ(group["frontier"][1]["on_frontier"], true);
}

TEST_F(CliReport, WritesAPageWithASectionForEachFileAndTables) {
  const fs::path page = tessera_.cache() / "page.html";
  const Outcome shown = tessera_.run({"report", first_.string(), second_.string(), "--out",
                                      page.string(), "--csv", out_.string()});

  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("small: " + first_.string()),
                                   HasSubstr("small: " + second_.string()), HasSubstr("<svg ")));
  EXPECT_THAT(text_of(out_ / "01-squad-leadin-table.csv"),
              HasSubstr("squad,leadin,epic,0.15,2,kl"));
  EXPECT_TRUE(fs::exists(out_ / "02-squad-leadin-frontier.csv"));
  EXPECT_THAT(shown.err, HasSubstr("4 tables"));
}

TEST_F(CliReport, DrawsEveryFigureAsPng) {
  if (std::system("command -v rsvg-convert >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "rsvg-convert is not installed";
  const Outcome shown = tessera_.run({"report", first_.string(), "--png", out_.string()});

  ASSERT_EQ(shown.status, 0) << shown.err;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(out_)) {
    names.push_back(entry.path().filename());
    EXPECT_THAT(text_of(entry.path()), testing::StartsWith("\x89PNG"));
  }
  EXPECT_THAT(
      names, testing::UnorderedElementsAre("01-squad-leadin-frontier.png",
                                           "01-squad-leadin-ttft.png", "01-squad-leadin-rows.png"));
}

TEST_F(CliReport, WithoutTheProgramThatDrawsItSaysWhatToInstall) {
  tessera_.set_env("PATH", tessera_.cache());

  const Outcome refused = tessera_.run({"report", first_.string(), "--png", out_.string()});

  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("rsvg-convert"), HasSubstr("librsvg2-bin")));
  EXPECT_EQ(refused.out, "");
}

TEST_F(CliReport, DiffSaysWhatChanged) {
  const Outcome shown = tessera_.run({"report", "--diff", first_.string(), second_.string()});
  const Outcome as_json =
      tessera_.run({"report", "--diff", first_.string(), second_.string(), "--json"});

  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("max_tokens: 32 first, 64 second"), HasSubstr("6 rows in both\n"),
                    HasSubstr("-0.3750 [-0.7500, 0.0000]"),
                    HasSubstr("\na of squad, anchor leadin, epic 0.15: KL 1.0000 -> 0.2500"),
                    HasSubstr("first:  answer of epic\n"), Not(HasSubstr("\nb of"))));
  const json diff = json::parse(as_json.out);
  EXPECT_EQ(diff["rows"]["paired"], 6);
  EXPECT_EQ(diff["most_changed"].size(), 1);
  EXPECT_EQ(diff["config"][0]["name"], "max_tokens");
}

TEST_F(CliReport, NamesFromAFileCannotMoveTheCursor) {
  const fs::path path = tessera_.cache() / "bad.jsonl";
  Measurement bad = row("a\x1b[2J", "epic\x1b[2J", 0.15, 1);
  bad.key.task = "squad\x1b[2J";
  bad.answer = "\x1b[2J \xC2\x9B";
  RunLog(path, {{{"seed", 0}}, {{"model", "\x1b[2J"}}}).add(bad);
  bad.kl = 2;
  const fs::path other = tessera_.cache() / "worse.jsonl";
  RunLog(other, {{{"seed", 0}}, {{"model", "small"}}}).add(bad);

  const Outcome shown = tessera_.run({"report", path.string()});
  const Outcome diff = tessera_.run({"report", "--diff", path.string(), other.string()});

  EXPECT_THAT(shown.out, AllOf(HasSubstr("squad"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(diff.out,
              AllOf(HasSubstr("squad"), Not(HasSubstr("\x1b")), Not(HasSubstr("\xC2\x9B"))));
}

TEST_F(CliReport, BaselineThatIsNotThereIsSaid) {
  const Outcome shown = tessera_.run({"report", first_.string(), "--baseline", "oracle"});

  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.err, HasSubstr("no row is of the baseline oracle"));
}

TEST_F(CliReport, SlipsAreSaidWithTheirStatus) {
  const fs::path notes = tessera_.cache() / "notes.txt";
  std::ofstream(notes) << "my notes\n";
  const std::string first = first_.string(), second = second_.string();
  const struct {
    std::vector<std::string> args;
    int status;
    std::string words;
  } slips[] = {
      {{"report"}, 2, "FILE"},
      {{"report", "/nonexistent.jsonl"}, 4, "/nonexistent.jsonl"},
      {{"report", notes.string()}, 2, "is no file of an eval run"},
      {{"report", first, "--baseline", "epik"}, 2, "epic"},
      {{"report", first, "--resamples", "1"}, 2, "resamples"},
      {{"report", first, "--out", "/nonexistent/page.html"}, 1, "/nonexistent/page.html"},
      {{"report", first, "--csv", notes.string()}, 1, "notes.txt"},
      {{"report", "--diff", first}, 2, "one was given"},
      {{"report", "--diff", first, second, first}, 2, "3 files were given"},
      {{"report", "--diff", first, second, "--out", "page.html"}, 2, "writes no files"},
  };
  for (const auto& slip : slips) {
    const Outcome said = tessera_.run(slip.args);
    EXPECT_EQ(said.status, slip.status) << testing::PrintToString(slip.args) << said.err;
    EXPECT_THAT(said.err, HasSubstr(slip.words)) << testing::PrintToString(slip.args);
    EXPECT_EQ(said.out, "") << testing::PrintToString(slip.args);
  }
}

}  // namespace
}  // namespace tessera
