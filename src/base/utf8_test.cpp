#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/text_util.h"

namespace tessera {
namespace {

std::string encode_utf8(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

TEST(Utf8, EveryCodePointButSurrogatesIsValidAndReadBack) {
  for (char32_t c = 0; c <= 0x110010; ++c) {
    const std::string bytes = encode_utf8(c);
    const bool is_character = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);

    const Utf8Step step = next_utf8(bytes);

    ASSERT_EQ(step.kind == Utf8Kind::kValid, is_character) << std::hex << static_cast<uint32_t>(c);
    if (is_character) {
      ASSERT_EQ(step.code_point, c);
    }
  }
}

// Every way to cut a text into pushes gives the same characters, and never half of one.
TEST(Utf8, WholeCharactersComeOutHoweverTheBytesArrive) {
  const std::string text = "a é 日本 😀 👩‍👩‍👧 e\xcc\x81";
  for (size_t width = 1; width <= text.size(); ++width) {
    std::string held;
    std::string out;
    for (size_t at = 0; at < text.size(); at += width) {
      held += text.substr(at, width);
      const std::string whole = take_whole_characters(held);
      ASSERT_FALSE(invalid_utf8_offset(whole).has_value()) << "width " << width;
      out += whole;
    }

    EXPECT_EQ(out, text) << "width " << width;
    EXPECT_TRUE(held.empty());
  }
}

TEST(Utf8, EachMaximalBadSubsequenceBecomesOneReplacement) {
  const auto taken = [](std::string bytes) { return take_whole_characters(bytes); };

  // The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11.
  EXPECT_EQ(taken("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), "��������A");
  EXPECT_EQ(taken("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), "��������A");
  EXPECT_EQ(taken("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), "�����A��B");
  EXPECT_EQ(taken("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), "����A");
}

TEST(Utf8, IncompleteLastCharacterIsHeldBack) {
  std::string held = "ab\xf0\x9f\x98";

  EXPECT_EQ(take_whole_characters(held), "ab");
  EXPECT_EQ(held, "\xf0\x9f\x98");
}

TEST(Utf8, BlankIsWhiteSpaceOfAnyKindAndNothingElse) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\r\n\xc2\xa0\xe3\x80\x80\xe2\x80\xa8"));
  EXPECT_FALSE(is_blank("\xe2\x80\x8b"));  // zero width space is no White_Space
  EXPECT_FALSE(is_blank("  ."));
}

}  // namespace
}  // namespace tessera
