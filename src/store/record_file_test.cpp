#include "store/record_file.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/sqlite.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

class RecordFileTest : public testing::Test {
 protected:
  static constexpr RecordKind kKind = {.application_id = 0x54455354,
                                       .plural = "records",
                                       .schema = "CREATE TABLE IF NOT EXISTS record (id INTEGER)"};

  static bool add(RecordFile& records) {
    return records.write([](Database& d) { Statement(d, "INSERT INTO record VALUES (1)").run(); });
  }
  static int64_t count(RecordFile& records) {
    int64_t n = -1;
    records.read([&](Database& d) {
      Statement statement(d, "SELECT count(*) FROM record");
      if (statement.step()) n = statement.integer(0);
    });
    return n;
  }

  store_testing::ScratchDir dir_;
  std::filesystem::path file_ = dir_.path() / "records.db";
};

TEST_F(RecordFileTest, LockThatIsNotLetGoIsWaitedForOnceAndKeepsNoReaderOut) {
  RecordFile records(file_, kKind, std::chrono::hours(1));
  ASSERT_TRUE(add(records));
  Database other(file_);
  other.execute("BEGIN IMMEDIATE");
  EXPECT_FALSE(add(records));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(add(records));
  EXPECT_EQ(records.errors(), 1U) << "the others were not tried";
  EXPECT_EQ(count(records), 1);
  EXPECT_EQ(records.errors(), 1U);

  other.execute("COMMIT");
  EXPECT_FALSE(add(records)) << "it rests still";
  EXPECT_EQ(count(records), 1);
}

TEST_F(RecordFileTest, IsTriedAgainAfterTheRest) {
  constexpr std::chrono::milliseconds kRest(1);
  RecordFile records(file_, kKind, kRest);
  Database other(file_);
  other.execute("BEGIN IMMEDIATE");
  EXPECT_FALSE(add(records));
  other.execute("COMMIT");
  std::this_thread::sleep_for(2 * kRest);
  EXPECT_TRUE(add(records));
  EXPECT_EQ(count(records), 1);
}

TEST_F(RecordFileTest, AnotherFaultIsNoReasonToRest) {
  RecordFile records(file_, kKind, std::chrono::hours(1));
  EXPECT_FALSE(records.write([](Database& d) { d.execute("no SQL"); }));
  EXPECT_TRUE(add(records));
  EXPECT_EQ(records.errors(), 1U);
}

}  // namespace
}  // namespace tessera
