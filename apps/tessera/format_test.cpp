#include "tessera/format.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera {
namespace {

TEST(HumanBytes, UsesDecimalUnitsWithThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(98362432), "98.4 MB");
  EXPECT_EQ(human_bytes(1117320768), "1.12 GB");
}

TEST(HumanBytes, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(human_bytes(999949), "999.9 kB");
  EXPECT_EQ(human_bytes(999950), "1.00 MB");
  EXPECT_EQ(human_bytes(std::numeric_limits<uint64_t>::max()), "18.4 EB");
}

TEST(HumanDuration, ChoosesTheUnitByLength) {
  EXPECT_EQ(human_duration(0), "0 ms");
  EXPECT_EQ(human_duration(0.4804), "480 ms");
  EXPECT_EQ(human_duration(0.9996), "1.0 s");
  EXPECT_EQ(human_duration(7.5), "7.5 s");
  EXPECT_EQ(human_duration(59.96), "1 m 00 s");
  EXPECT_EQ(human_duration(651), "10 m 51 s");
  EXPECT_EQ(human_duration(7380), "2 h 03 m");
  EXPECT_EQ(human_duration(3 * 86400 + 4 * 3600), "3 d 04 h");
}

TEST(HumanDuration, ShowsWhatIsNoDurationAsUnknown) {
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(HumanCount, GroupsDigitsByThree) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1,000");
  EXPECT_EQ(human_count(491400064), "491,400,064");
}

TEST(Counted, NamesOneAndSeveral) {
  EXPECT_EQ(counted(0, "question"), "0 questions");
  EXPECT_EQ(counted(1, "question"), "1 question");
  EXPECT_EQ(counted(1024, "row"), "1,024 rows");
}

TEST(SoonerText, TurnsTheFactorRoundWhereItIsLater) {
  EXPECT_EQ(sooner_text(5.308), "5.31 times sooner");
  EXPECT_EQ(sooner_text(1), "1.00 times sooner");
  EXPECT_EQ(sooner_text(0.71), "1.41 times later");
}

TEST(LossText, SaysAGainAsOne) {
  EXPECT_EQ(loss_text(0.02), "0.0200");
  EXPECT_EQ(loss_text(-0.02), "gain 0.0200");
  EXPECT_EQ(loss_text(-0.00001), "0.0000");
  EXPECT_EQ(loss_text(0), "0.0000");
}

TEST(Table, AlignsColumnsByCharactersNotBytes) {
  Table table({{"name"}, {"n", Table::Align::kRight}, {"note"}});
  table.add_row({"übung", "7", "é"});
  table.add_row({"a", "1,024", ""});

  EXPECT_EQ(table.text(),
            "name       n  note\n"
            "übung      7  é\n"
            "a      1,024\n");
}

TEST(Table, FillsMissingCells) {
  Table table({{"a"}, {"b"}});
  table.add_row({"x"});

  EXPECT_EQ(table.text(), "a  b\nx\n");
}

}  // namespace
}  // namespace tessera
