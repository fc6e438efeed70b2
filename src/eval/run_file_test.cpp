#include "eval/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "eval/report_testing.h"
#include "eval/run_log.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

using nlohmann::json;
using report_testing::full_row;
using report_testing::row;
using testing::HasSubstr;

class RunFileRead : public testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }
  std::string error_of(ErrorCode code) const {
    try {
      read_run_file(file_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "";
  }
  static std::string head(int max_tokens) {
    const json config = {{"max_tokens", max_tokens}};
    return R"({"kind":"run","config":)" + config.dump() + "}\n";
  }

  store_testing::ScratchDir folder_;
  std::filesystem::path file_ = folder_.path() / "run.jsonl";
};

TEST_F(RunFileRead, HasWhatWasLogged) {
  const RunHeader header = {{{"seed", 7}}, {{"model", "small"}}};
  RunLog(file_, header).add(full_row("a"));
  RunLog(file_, header).add(row("a", "epic", 0.15, 0.5));

  const RunFile run = read_run_file(file_);

  EXPECT_EQ(run.name, file_.string());
  EXPECT_EQ(run.config, header.config);
  ASSERT_EQ(run.sessions.size(), 2);
  EXPECT_EQ(run.sessions[1], header.session);
  ASSERT_EQ(run.rows.size(), 2);
  EXPECT_EQ(run.rows.at(row("a", "epic", 0.15, 0).key).kl, 0.5);
  EXPECT_EQ(seed_of(run, 1), 7);
}

TEST_F(RunFileRead, LineThatWasCutOffIsLeftOutAndStays) {
  const std::string whole = head(4) + record_of(full_row("a")).dump() + "\n";
  const std::string text = whole + record_of(full_row("b")).dump().substr(0, 40);
  write(text);

  EXPECT_EQ(read_run_file(file_).rows.size(), 1);
  EXPECT_EQ(std::filesystem::file_size(file_), text.size());
}

TEST_F(RunFileRead, OtherFilesAreRefused) {
  const std::string good = record_of(full_row("a")).dump() + "\n";
  EXPECT_THAT(error_of(ErrorCode::kNotFound), HasSubstr("run.jsonl"));
  write("my notes\n");
  EXPECT_THAT(error_of(ErrorCode::kInvalidRequest), HasSubstr("is no file of an eval run"));
  write(good);
  EXPECT_THAT(error_of(ErrorCode::kInvalidRequest), HasSubstr("is no file of an eval run"));
  write("");
  EXPECT_THAT(error_of(ErrorCode::kInvalidRequest), HasSubstr("has no rows"));
  write(head(4));
  EXPECT_THAT(error_of(ErrorCode::kInvalidRequest), HasSubstr("has no rows"));
  write(head(4) + good + "{}\n");
  EXPECT_THAT(error_of(ErrorCode::kInvalidRequest), HasSubstr("line 3 - is no row"));
  write(head(4) + good + head(5) + good);
  EXPECT_THAT(error_of(ErrorCode::kInvalidRequest), HasSubstr("several configs"));
  write("{\"kind\":\"run\",\"config\":3,\"session\":[]}\n" + good);
  EXPECT_TRUE(read_run_file(file_).config.empty());
}

TEST(ConfigDifferences, NameWhatIsNotEqual) {
  const json first = {{"a", 1}, {"b", "x"}, {"c", 2}}, second = {{"a", 1}, {"b", "y"}, {"d", 3}};

  const std::vector<ConfigDifference> found = config_differences(first, second);

  ASSERT_EQ(found.size(), 3);
  EXPECT_EQ(found[0].name + found[0].first + found[0].second, "b\"x\"\"y\"");
  EXPECT_EQ(found[1].name + found[1].first + found[1].second, "c2none");
  EXPECT_EQ(found[2].name + found[2].first + found[2].second, "dnone3");
  EXPECT_TRUE(config_differences(first, first).empty());
}

}  // namespace
}  // namespace tessera
