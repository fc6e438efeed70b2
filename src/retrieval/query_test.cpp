#include "retrieval/query.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tessera {
namespace {

TEST(Query, JoinsQuotedWords) {
  EXPECT_EQ(match_expression("Rhine gorge"), R"("rhine" OR "gorge")");
  EXPECT_EQ(match_expression("  "), "");
  EXPECT_EQ(match_expression("?! -- \"\" * ()"), "");
}

TEST(Query, OperatorsAreWords) {
  EXPECT_EQ(match_expression("rhine NEAR(gorge, 2) NOT title:x ^y z*"),
            R"("rhine" OR "near" OR "gorge" OR "2" OR "not" OR "title" OR "x" OR "y" OR "z")");
  EXPECT_EQ(match_expression("say \"hi\" AND go"), R"("say" OR "hi" OR "go")");
}

TEST(Query, LeavesOutFunctionWordsOnlyBesideOthers) {
  EXPECT_EQ(match_expression("Who was the first director of the V&A?"),
            R"("first" OR "director" OR "v")");
  EXPECT_EQ(match_expression("who are they"), R"("who" OR "are" OR "they")");
}

TEST(Query, NamesAWordOnce) { EXPECT_EQ(match_expression("Rhine rhine RHINE"), "\"rhine\""); }

TEST(Query, KeepsLettersOutsideAsciiAndSplitsAtTheirMarks) {
  EXPECT_EQ(match_expression("Tem\u00fcjin\u2014\u201ckhan\u201d"), "\"tem\u00fcjin\" OR \"khan\"");
  EXPECT_EQ(match_expression("\u6211\u4eec\u3002\u4f60\u4eec\uff1f"),
            "\"\u6211\u4eec\" OR \"\u4f60\u4eec\"");
  EXPECT_EQ(match_expression("\uff21\uff22"), "\"\uff21\uff22\"");  // letters of full width
}

TEST(Query, HasALimitOfWords) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += fmt::format("w{} ", i);

  const std::string expression = match_expression(text);

  EXPECT_EQ(std::count(expression.begin(), expression.end(), '"'), 2 * 64);
}

}  // namespace
}  // namespace tessera
