#include "store/record_file.h"

#include <gtest/gtest.h>

#include "base/sqlite.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

using store_testing::ScratchDir;

class RecordFileTest : public testing::Test {
 protected:
  static RecordKind kind(std::chrono::milliseconds rest) {
    return {.application_id = 0x54455354,
            .plural = "records",
            .schema = "CREATE TABLE IF NOT EXISTS record (id INTEGER)",
            .rest = rest};
  }
  static bool add(RecordFile& records) {
    return records.guarded([](Database& d) { d.execute("INSERT INTO record VALUES (1)"); });
  }

  ScratchDir dir_;
  std::filesystem::path file_ = dir_.path() / "records.db";
};

TEST_F(RecordFileTest, LockThatIsNotLetGoIsWaitedForOnce) {
  RecordFile records(file_, kind(std::chrono::hours(1)));
  ASSERT_TRUE(add(records));
  Database other(file_);
  other.execute("BEGIN IMMEDIATE");
  EXPECT_FALSE(add(records));
  EXPECT_EQ(records.errors(), 1U);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(add(records));
  EXPECT_EQ(records.errors(), 1U) << "it was not tried again";
  EXPECT_TRUE(records.is_usable());
}

TEST_F(RecordFileTest, IsTriedAgainAfterTheRest) {
  RecordFile records(file_, kind(std::chrono::milliseconds(0)));
  Database other(file_);
  other.execute("BEGIN IMMEDIATE");
  EXPECT_FALSE(add(records));
  other.execute("COMMIT");
  EXPECT_TRUE(add(records));
}

TEST_F(RecordFileTest, AnotherFaultIsNoReasonToRest) {
  RecordFile records(file_, kind(std::chrono::hours(1)));
  EXPECT_FALSE(records.guarded([](Database& d) { d.execute("no SQL"); }));
  EXPECT_TRUE(add(records));
  EXPECT_EQ(records.errors(), 1U);
}

}  // namespace
}  // namespace tessera
