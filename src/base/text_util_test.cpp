#include "base/text_util.h"

#include <gtest/gtest.h>

#include <array>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"full", "prefix", "reuse", "epic"};

TEST(Utf8, AcceptsEveryLengthOfCharacter) {
  EXPECT_EQ(invalid_utf8_offset(""), std::nullopt);
  EXPECT_EQ(invalid_utf8_offset("a\u00e9\u4e2d\U0001F600\U0010FFFF"), std::nullopt);
  EXPECT_EQ(invalid_utf8_offset(std::string_view("\0", 1)), std::nullopt);  // NUL is a character
}

TEST(Utf8, NamesOffsetOfFirstMalformedByte) {
  const std::pair<std::string_view, size_t> cases[] = {
      {"ab\xFF", 2},            // no lead byte
      {"\x80", 0},              // continuation alone
      {"\u00e9\xC3", 2},        // cut at the end
      {"a\xC0\xAF", 1},         // overlong
      {"a\xE0\x80\x80", 1},     // overlong
      {"ab\xED\xA0\x80", 2},    // surrogate
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xF0\x9F\x98zz", 0},    // third continuation missing
  };
  for (const auto& [text, offset] : cases)
    EXPECT_EQ(invalid_utf8_offset(text), offset) << quote(text);
}

TEST(Utf8, FloorStepsBackToStartOfCharacter) {
  const std::string_view text = "a\U0001F600b";

  EXPECT_EQ(utf8_floor(text, 0), 0U);
  EXPECT_EQ(utf8_floor(text, 1), 1U);
  EXPECT_EQ(utf8_floor(text, 2), 1U);
  EXPECT_EQ(utf8_floor(text, 4), 1U);
  EXPECT_EQ(utf8_floor(text, 5), 5U);
  EXPECT_EQ(utf8_floor(text, 99), text.size());
}

TEST(Quote, MakesAnyBytesPrintableAndShort) {
  EXPECT_EQ(quote("epic"), "'epic'");
  EXPECT_EQ(quote("a\n\xFF\u00e9"), "'a\\x0a\\xff\u00e9'");
  EXPECT_EQ(quote(std::string(1000, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(invalid_utf8_offset(quote(std::string(59, 'x') + "\u4e2d\u4e2d")), std::nullopt);
}

TEST(ClosestName, FindsSlips) {
  EXPECT_EQ(closest_name("epik", kNames), "epic");
  EXPECT_EQ(closest_name("EPIC", kNames), "epic");
  EXPECT_EQ(closest_name("perfix", kNames), "prefix");
  EXPECT_EQ(closest_name("refuse", kNames), "reuse");
  EXPECT_EQ(closest_name("ful", kNames), "full");
}

TEST(ClosestName, IsEmptyForAnotherWord) {
  EXPECT_EQ(closest_name("cacheblend", kNames), "");
  EXPECT_EQ(closest_name("", kNames), "");
  EXPECT_EQ(closest_name(std::string(100000, 'e'), kNames), "");
  EXPECT_EQ(closest_name("epic", {}), "");
}

TEST(UnknownName, ListsKnownNamesAndTheGuess) {
  EXPECT_EQ(
      unknown_name("reuse policy", "epik", kNames),
      "unknown reuse policy 'epik' - known: full, prefix, reuse, epic - did you mean 'epic'?");
  EXPECT_EQ(unknown_name("reuse policy", "zzz", kNames),
            "unknown reuse policy 'zzz' - known: full, prefix, reuse, epic");
}

}  // namespace
}  // namespace tessera
