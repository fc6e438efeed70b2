#include "eval/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "base/error.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const RowInputs kInputs = {.sample = "digest", .scorer = "small"};

Measurement measurement(const std::string& id, const std::string& policy, double kl = 0.5) {
  Measurement o;
  o.key = {"squad", id, "leadin", policy, 0.15};
  o.inputs = kInputs;
  o.answer = "the answer";
  o.kl = kl;
  o.ttft_ms = o.full_ttft_ms = 1;
  o.account.fresh = 1;
  return o;
}

RunHeader header(int max_tokens = 32) {
  return {{{"max_tokens", max_tokens}, {"model_digest", "abc"}}, {{"commit", "123"}}};
}

class RunLogFile : public testing::Test {
 protected:
  std::string text() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }
  size_t n_lines() const {
    const std::string all = text();
    return static_cast<size_t>(std::count(all.begin(), all.end(), '\n'));
  }
  std::string error_of(const RunHeader& with) const {
    try {
      const RunLog log(file_, with);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  store_testing::ScratchDir folder_;
  fs::path file_ = folder_.path() / "run.jsonl";
};

TEST_F(RunLogFile, RowsComeBack) {
  {
    RunLog log(file_, header());
    log.add(measurement("a", "epic", 0.25));
    log.add(measurement("b", "epic"));
  }

  const RunLog log(file_, header());

  EXPECT_EQ(log.rows().size(), 2U);
  EXPECT_EQ(log.rows().at(measurement("a", "epic").key).kl, 0.25);
  EXPECT_TRUE(log.has(measurement("b", "epic").key, kInputs));
  EXPECT_FALSE(log.has(measurement("b", "reuse").key, kInputs));
  RowKey other = measurement("b", "epic").key;
  other.ratio = 0.3;
  EXPECT_FALSE(log.has(other, kInputs));
}

TEST_F(RunLogFile, EverySessionThatAddsRowsIsHeadedByItsOwnRecord) {
  for (const char* id : {"a", "b"}) {
    RunLog log(file_, header());
    log.add(measurement(id, "epic"));
    log.add(measurement(id, "reuse"));
  }
  { const RunLog only_reads(file_, header()); }

  std::vector<std::string> kinds;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) kinds.push_back(json::parse(line)["kind"]);
  EXPECT_THAT(kinds, testing::ElementsAre("run", "row", "row", "run", "row", "row"));
}

TEST_F(RunLogFile, HeaderSaysConfigAndSession) {
  RunLog(file_, header()).add(measurement("a", "epic"));

  const json record = json::parse(text().substr(0, text().find('\n')));

  EXPECT_EQ(record["config"], header().config);
  EXPECT_EQ(record["session"], header().session);
  EXPECT_EQ(record["config_digest"], config_digest(header().config));
}

// A kill may cut the file anywhere. Whole rows stay, the rest is measured again.
TEST_F(RunLogFile, CutAnywhereLosesNoMoreThanTheLastLine) {
  {
    RunLog log(file_, header());
    for (const char* id : {"a", "b", "c"}) log.add(measurement(id, "epic"));
  }
  const std::string whole = text();
  for (size_t n = 0; n <= whole.size(); ++n) {
    write(whole.substr(0, n));
    const std::string kept = whole.substr(0, n);
    const auto n_whole = static_cast<size_t>(std::count(kept.begin(), kept.end(), '\n'));
    {
      RunLog log(file_, header());
      ASSERT_EQ(log.rows().size(), n_whole == 0 ? 0 : n_whole - 1) << "cut at " << n;
      ASSERT_EQ(n_lines(), n_whole) << "cut at " << n;
      for (const char* id : {"a", "b", "c"}) {
        if (!log.has(measurement(id, "epic").key, kInputs)) log.add(measurement(id, "epic"));
      }
    }
    ASSERT_EQ(RunLog(file_, header()).rows().size(), 3U) << "cut at " << n;
  }
}

TEST_F(RunLogFile, OtherSettingsAreRefusedByName) {
  RunLog(file_, header()).add(measurement("a", "epic"));
  const std::string before = text();

  EXPECT_THAT(error_of(header(16)),
              testing::AllOf(HasSubstr("max_tokens (32 there, 16 now)"), HasSubstr("--out"),
                             testing::Not(HasSubstr("model_digest"))));
  EXPECT_EQ(text(), before);
  EXPECT_EQ(error_of(header()), "");
}

TEST_F(RunLogFile, FileOfAnotherKindIsRefusedAndStaysAsItWas) {
  for (const char* foreign : {"my notes", "my notes\n", "{\"id\": 1}\n{\"id\"", "[]\n", "\n"}) {
    write(foreign);
    EXPECT_THAT(error_of(header()), HasSubstr("is no file of an eval run")) << foreign;
    EXPECT_EQ(text(), foreign);
  }
}

TEST_F(RunLogFile, RefusalGivesTheAdviceOfTheCaller) {
  const auto refusal = [this](const RunHeader& with) -> std::string {
    try {
      const RunLog log(file_, with, "name another folder");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  RunLog(file_, header()).add(measurement("a", "epic"));
  EXPECT_THAT(refusal(header(16)), testing::EndsWith("(32 there, 16 now) - name another folder"));
  EXPECT_THAT(error_of(header(16)), testing::EndsWith(" - give another file to --out"));
  write(text() + "{}\n");
  EXPECT_THAT(refusal(header()), testing::EndsWith("no row of an eval run - name another folder"));
  write("my notes\n");
  EXPECT_THAT(refusal(header()), testing::EndsWith("of an eval run - name another folder"));
}

TEST_F(RunLogFile, DamagedLineIsNamed) {
  RunLog(file_, header()).add(measurement("a", "epic"));
  const std::string whole = text();
  for (const char* bad : {"{}", "{\"kind\": \"row\", \"task\": \"squad\"}", "x", ""}) {
    write(whole + bad + "\n" + whole);
    EXPECT_THAT(error_of(header()), HasSubstr("line 3 - is no row")) << bad;
  }
}

TEST_F(RunLogFile, RowsOfAQuestionThatHasChangedAreRefused) {
  RunLog log(file_, header());
  log.add(measurement("a", "epic"));

  EXPECT_THROW(log.has(measurement("a", "epic").key, {"another", "small"}), Error);
  EXPECT_FALSE(log.has(measurement("b", "epic").key, {"another", "small"}));
}

TEST_F(RunLogFile, RowsOfAnotherScorerAreRefusedByName) {
  RunLog log(file_, header());
  log.add(measurement("a", "speccache"));

  try {
    log.has(measurement("a", "speccache").key, {"digest", "smaller"});
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr("speccache with another scorer ('small' there, 'smaller'"));
  }
}

TEST_F(RunLogFile, RowThatIsNotFiniteIsAnErrorAndIsNotWritten) {
  RunLog log(file_, header());
  log.add(measurement("a", "epic"));
  const std::string before = text();
  try {
    log.add(measurement("b", "epic", std::numeric_limits<double>::quiet_NaN()));
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_THAT(error.what(), HasSubstr("'b'"));
  }
  EXPECT_EQ(text(), before);
  EXPECT_EQ(log.rows().size(), 1U);
}

TEST_F(RunLogFile, SecondWriterIsRefused) {
  const RunLog first(file_, header());
  EXPECT_THAT(error_of(header()), HasSubstr("another run writes to it"));
}

TEST_F(RunLogFile, FolderThatIsNotThereIsNamed) {
  file_ = folder_.path() / "none" / "run.jsonl";
  EXPECT_THAT(error_of(header()), HasSubstr(file_.string()));
}

TEST_F(RunLogFile, DeviceIsRefused) {
  file_ = "/dev/zero";
  EXPECT_THAT(error_of(header()), HasSubstr("is no regular file"));
}

// A limit on the size of files cuts a write short, as a full disk does.
TEST_F(RunLogFile, RowThatDoesNotFitIsTakenBackAndSaid) {
  RunLog log(file_, header());
  log.add(measurement("a", "epic"));
  const std::string before = text();
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit tight = {before.size() + 10, old.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);

  EXPECT_THROW(log.add(measurement("b", "epic")), Error);

  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(text(), before);
  EXPECT_FALSE(log.has(measurement("b", "epic").key, kInputs));
  log.add(measurement("b", "epic"));
  EXPECT_EQ(n_lines(), 3U);
}

TEST(RunLogInMemory, KeepsRowsWithoutAFile) {
  RunLog log;
  log.add(measurement("a", "epic"));
  EXPECT_TRUE(log.has(measurement("a", "epic").key, kInputs));
}

TEST(ConfigDigest, DoesNotDependOnTheOrderOfFields) {
  const json a = {{"x", 1}, {"y", 0.1}}, b = {{"y", 0.1}, {"x", 1}};
  EXPECT_EQ(config_digest(a), config_digest(b));
  EXPECT_NE(config_digest(a), config_digest({{"x", 2}, {"y", 0.1}}));
}

}  // namespace
}  // namespace tessera
