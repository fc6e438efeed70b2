#include "retrieval/splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "base/error.h"
#include "base/text_util.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Four bytes a token, over the chunk as it is written into a prompt: "title: text" and a newline.
int32_t quarter_tokens(std::string_view title, std::string_view text) {
  return int32_t((title.size() + text.size() + 3 + 3) / 4);
}

// One token a word, as a tokenizer of long words does it.
int32_t word_tokens(std::string_view title, std::string_view text) {
  int32_t n = 0;
  for (const std::string_view part : {title, text}) {
    bool in_word = false;
    for (const char c : part) {
      const bool is_gap = c == ' ' || c == '\n' || c == '\r';
      n += in_word || is_gap ? 0 : 1;
      in_word = !is_gap;
    }
  }
  return n;
}

// Not monotone: a text whose last byte is odd has three tokens more, as if a cut took a long token
// apart. And strict: a tokenizer is never given half a character.
int32_t jumpy_tokens(std::string_view title, std::string_view text) {
  EXPECT_EQ(invalid_utf8_offset(text), std::nullopt);
  return quarter_tokens(title, text) + (!text.empty() && (text.back() & 1) != 0 ? 3 : 0);
}

SplitOptions limit(int32_t max_tokens) {
  return {.max_tokens = max_tokens, .count_tokens = quarter_tokens};
}

std::vector<std::string> texts(const std::vector<Passage>& passages) {
  std::vector<std::string> out;
  out.reserve(passages.size());
  for (const Passage& p : passages) out.push_back(p.text);
  return out;
}

std::vector<std::string> titles(const std::vector<Passage>& passages) {
  std::vector<std::string> out;
  out.reserve(passages.size());
  for (const Passage& p : passages) out.push_back(p.title);
  return out;
}

std::vector<Passage> split_markdown(std::string_view text, int32_t max_tokens) {
  return split_document(text, DocumentFormat::kMarkdown, "file", limit(max_tokens));
}

std::vector<Passage> split_plain(std::string_view text, int32_t max_tokens) {
  return split_document(text, DocumentFormat::kPlainText, "file", limit(max_tokens));
}

std::string repeat(std::string_view text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(Splitter, KeepsASmallDocumentWhole) {
  const auto passages =
      split_markdown("# Rhine\n\nA river.\n\n## Geography\n\nIt flows north.\n", 512);

  EXPECT_THAT(titles(passages), ElementsAre("Rhine"));
  EXPECT_THAT(texts(passages), ElementsAre("A river.\n\n## Geography\n\nIt flows north."));
}

TEST(Splitter, CutsAtHeadingsWhenSectionsDoNotFitTogether) {
  const auto passages = split_markdown(
      "# Rhine\n\n## Geography\n\nIt flows north through the gorge.\n\n## History\n\nThe Romans "
      "called it Rhenus.\n",
      16);

  EXPECT_THAT(titles(passages), ElementsAre("Rhine > Geography", "Rhine > History"));
  EXPECT_THAT(texts(passages),
              ElementsAre("It flows north through the gorge.", "The Romans called it Rhenus."));
}

TEST(Splitter, MergedSectionsKeepTheirHeadingLinesUnderTheCommonTitle) {
  const auto passages = split_markdown(
      "# Doc\n\n## A\n\n### B\n\nbb\n\n### C\n\ncc\n\n## D\n\n" + repeat("word ", 20), 30);

  EXPECT_THAT(titles(passages), ElementsAre("Doc > A", "Doc > D"));
  EXPECT_EQ(passages[0].text, "### B\n\nbb\n\n### C\n\ncc");
}

TEST(Splitter, MergedSectionsKeepAnInnerHeadingThatIsNotInTheTitle) {
  const auto passages = split_markdown("# Doc\n\n## A\n\n### B\n\nbb\n\n## D\n\ndd\n", 30);

  EXPECT_THAT(titles(passages), ElementsAre("Doc"));
  EXPECT_THAT(texts(passages), ElementsAre("## A\n\n### B\n\nbb\n\n## D\n\ndd"));
}

TEST(Splitter, LeavesNoHeadingAtTheEndOfAPassage) {
  const auto passages =
      split_markdown("# Doc\n\nintro\n\n## A\n\n### B\n\n" + repeat("word ", 24), 36);

  EXPECT_THAT(titles(passages), ElementsAre("Doc", "Doc > A > B"));
  EXPECT_EQ(passages[0].text, "intro");
}

TEST(Splitter, TakesTheFileNameWhenThereIsNoSingleTopHeading) {
  EXPECT_THAT(titles(split_markdown("Text.\n\n# A\n\n" + repeat("aaaa ", 8), 14)),
              ElementsAre("file", "file > A"));
  EXPECT_THAT(
      titles(split_markdown("# A\n\n" + repeat("aaaa ", 8) + "\n# B\n\n" + repeat("bbbb ", 8), 14)),
      ElementsAre("file > A", "file > B"));
  EXPECT_THAT(titles(split_document("Text.", DocumentFormat::kMarkdown, "", limit(9))),
              ElementsAre(""));
}

TEST(Splitter, ReadsSetextHeadings) {
  const auto passages = split_markdown(
      "Rhine\n=====\n\nGeography\n---------\n\nIt flows north through it.\n\nHistory\n--\nThe "
      "Romans called it Rhenus.\n",
      14);

  EXPECT_THAT(titles(passages), ElementsAre("Rhine > Geography", "Rhine > History"));
  EXPECT_THAT(texts(passages),
              ElementsAre("It flows north through it.", "The Romans called it Rhenus."));
}

TEST(Splitter, StripsHeadingMarkUp) {
  EXPECT_THAT(titles(split_markdown("  ## The C# language ##  \r\n\r\nx", 512)),
              ElementsAre("file > The C# language"));
  EXPECT_THAT(titles(split_markdown("# C#\nx", 512)), ElementsAre("C#"));
}

TEST(Splitter, DoesNotTakeCommentsInFencedCodeForHeadings) {
  const std::string code = "```sh\n# not a heading\nls\n~~~\n# nor this\n```\n";
  const auto passages =
      split_markdown("# Doc\n\n" + code + "\n## Real\n\n" + repeat("word ", 12), 24);

  EXPECT_THAT(titles(passages), ElementsAre("Doc", "Doc > Real"));
  EXPECT_EQ(passages[0].text + "\n", code);
  EXPECT_THAT(titles(split_markdown("# Doc\n\n~~~~\n~~~\n# x\n~~~~\n", 512)), ElementsAre("Doc"));
  EXPECT_THAT(titles(split_markdown("# Doc\n\n``` never closed\n# x\n", 512)), ElementsAre("Doc"));
}

TEST(Splitter, KeepsFrontMatterAsText) {
  const auto passages =
      split_markdown("---\n# y\n" + repeat("key: value\n", 10) + "---\n\n# Doc\n\ntext\n", 20);

  ASSERT_THAT(passages, testing::SizeIs(3));
  EXPECT_THAT(titles(passages), ElementsAre("file", "file", "file > Doc"));
  EXPECT_EQ(passages[0].text.substr(0, 14), "---\n# y\nkey: v");
}

// Every word of a document must be found in some passage.
TEST(Splitter, HeadingsWithNothingUnderThemAreText) {
  EXPECT_THAT(texts(split_markdown("# Only a title\n", 512)), ElementsAre("# Only a title"));
  EXPECT_THAT(texts(split_markdown("# A\n\n# B\n\n# C\n", 512)), ElementsAre("# A\n\n# B\n\n# C"));
  EXPECT_THAT(texts(split_markdown("# A\n\n## B\n\n# C\n", 512)),
              ElementsAre("## B\n\n# C"));  // under the title A
  EXPECT_THAT(texts(split_markdown("# A\n\ntext\n\n## See also\n", 512)),
              ElementsAre("text\n\n## See also"));
}

TEST(Splitter, PlainTextIsTitledByItsFirstLine) {
  EXPECT_THAT(titles(split_plain("Rhine\n\nIt is a river. # no heading\n", 512)),
              ElementsAre("Rhine"));
  EXPECT_THAT(texts(split_plain("Rhine\n\nIt is a river.\n# no heading\n", 512)),
              ElementsAre("It is a river.\n# no heading"));
  EXPECT_THAT(titles(split_plain("Letter 1\nTo Mrs. Saville, England.\n", 512)),
              ElementsAre("Letter 1"));
}

TEST(Splitter, PlainTextWithoutATitleLineTakesTheFileName) {
  const std::string wrapped =
      "It was the best of times, it was the worst of times, it was\nthe age of wisdom.\n";
  for (const std::string& text : {wrapped, std::string("A sentence.\n\nMore."),
                                  std::string("one line only"), repeat("long ", 20) + "\n\nmore"}) {
    EXPECT_THAT(titles(split_plain(text, 512)), ElementsAre("file")) << text;
  }
}

TEST(Splitter, CutsBetweenParagraphsFirst) {
  const auto passages = split_plain(
      "One is here. It is short.\n\nTwo is here. It is longer than one.\n \nThree. And it "
      "is the last one.\n",
      15);

  EXPECT_THAT(texts(passages),
              ElementsAre("One is here. It is short.", "Two is here. It is longer than one.",
                          "Three. And it is the last one."));
}

TEST(Splitter, TakesCrLfPairsForAParagraphBreakAndKeepsThem) {
  const auto passages = split_plain("One is:\r\nhere today.\r\n\r\nTwo is here and there.\r\n", 11);

  EXPECT_THAT(texts(passages), ElementsAre("One is:\r\nhere today.", "Two is here and there."));
}

TEST(Splitter, CutsBehindSentencesInALongParagraph) {
  const auto passages = split_plain(
      "The first one is here. Is it? The second one is there! And \u201cso on.\u201d The end.", 13);

  EXPECT_THAT(texts(passages),
              ElementsAre("The first one is here. Is it?",
                          "The second one is there! And \u201cso on.\u201d", "The end."));
}

TEST(Splitter, DoesNotTakeAbbreviationsInitialsAndDecimalsForSentenceEnds) {
  for (const std::string_view inside :
       {"Dr. Brown", "J. Brown", "U.S. Navy", "e.g. Brown", "3.14 Brown", "etc. and"}) {
    const std::string first = "It had ended early. Then we saw " + std::string(inside);
    // The limit lets the text end in the middle of what follows, so the last sentence end in reach
    // decides.
    const auto passages = split_plain(first + " and others.", int32_t(first.size()) / 4 + 3);
    EXPECT_EQ(passages[0].text, "It had ended early.") << inside;
  }
}

TEST(Splitter, CutsBehindCjkSentences) {
  const auto passages = split_plain(
      "\u6211\u4eec\u5f88\u597d\u3002\u4f60\u4eec\u5462\uff1f\u5927\u5bb6\u90fd\u597d\uff01", 10);

  EXPECT_THAT(texts(passages), ElementsAre("\u6211\u4eec\u5f88\u597d\u3002\u4f60\u4eec\u5462\uff1f",
                                           "\u5927\u5bb6\u90fd\u597d\uff01"));
}

TEST(Splitter, CutsBetweenWordsWhereNothingElseIs) {
  const auto passages = split_plain(repeat("abcdef ", 40), 10);

  for (const Passage& p : passages) EXPECT_EQ((p.text.size() + 1) % 7, 0U) << p.text;
}

TEST(Splitter, FillsPassages) {
  const auto passages = split_plain(repeat("abcdef ", 4000), 512);

  for (size_t i = 0; i + 1 < passages.size(); ++i)
    EXPECT_GE(quarter_tokens("file", passages[i].text), 500) << i;
}

TEST(Splitter, SkipsTheByteOrderMark) {
  const auto passages = split_markdown("\xEF\xBB\xBF# Doc\n\ntext", 512);

  EXPECT_THAT(titles(passages), ElementsAre("Doc"));
  EXPECT_EQ(passages[0].begin, 10U);
  EXPECT_EQ(passages[0].end, 14U);
}

TEST(Splitter, AnEmptyDocumentHasNoPassages) {
  for (const std::string_view text : {"", " \r\n\t\n", "\xEF\xBB\xBF", "\xEF\xBB\xBF\n"}) {
    EXPECT_THAT(split_markdown(text, 512), IsEmpty());
    EXPECT_THAT(split_plain(text, 512), IsEmpty());
  }
}

void expect_refused(std::string_view text, const std::string& what) {
  try {
    split_plain(text, 512);
    FAIL() << "not refused: " << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr(what));
  }
}

TEST(Splitter, RefusesWhatIsNotUtf8TextAndNamesTheOffset) {
  expect_refused("abc\xFF", "UTF-8 at byte offset 3");
  expect_refused(std::string_view("ab\0c", 4), "NUL at byte offset 2");
  expect_refused(std::string_view("a\xFF\0", 3), "UTF-8 at byte offset 1");
  expect_refused(std::string_view("a\0\xFF", 3), "NUL at byte offset 1");
  expect_refused("\xFF\xFEh", "UTF-8 at byte offset 0");  // the mark of UTF-16
  EXPECT_EQ(split_plain("ab\u00ff", 512).size(), 1U);
}

TEST(Splitter, RefusesALimitThatKeepsNoCharacter) {
  EXPECT_THROW(split_plain("abc", 0), Error);
  EXPECT_THROW(split_plain("abc", -5), Error);
  EXPECT_THROW(split_plain("\U0001F600\U0001F600", 1), Error);
  EXPECT_EQ(split_plain("\U0001F600\U0001F600", 2).size(), 2U);
}

TEST(Splitter, ALongTitleLosesItsOuterHeadingsThenItsEnd) {
  const auto passages =
      split_markdown("# A long document title\n\n## Section\n\n" + repeat("word ", 30), 12);
  EXPECT_EQ(passages[0].title, "Section");

  const auto cut = split_document(repeat("word ", 30), DocumentFormat::kPlainText,
                                  repeat("\u00e9", 500), limit(12));
  EXPECT_EQ(invalid_utf8_offset(cut[0].title), std::nullopt);
  EXPECT_LE(quarter_tokens(cut[0].title, ""), 6);
}

TEST(Splitter, MakesAFileNameOfAnyBytesATitle) {
  const auto passages = split_document("text", DocumentFormat::kPlainText, "a\xFF\nb", limit(64));

  EXPECT_THAT(titles(passages), ElementsAre("a? b"));
}

// The work that a splitter gives to the tokenizer.
struct Meter {
  size_t n_bytes = 0;
  SplitOptions options(int32_t max_tokens) {
    return {.max_tokens = max_tokens,
            .count_tokens = [this](std::string_view title, std::string_view text) {
              n_bytes += title.size() + text.size();
              return quarter_tokens(title, text);
            }};
  }
};

TEST(Splitter, CountsTokensOfFewBytes) {
  const std::string documents[] = {
      repeat("x", 1 << 18),  // one line without a space
      repeat("A short sentence of words. ", 10000),
      repeat("## H\n\ntext\n\n", 20000),  // sections that merge
      repeat("# a\n", 20000),             // headings only
      repeat("\u4e2d\u6587", 40000),
      repeat("## H\n\n" + repeat("word ", 600), 80),  // sections that do not
      repeat(" ", 1 << 18) + "x",
  };
  for (const std::string& text : documents) {
    Meter meter;
    const auto passages =
        split_document(text, DocumentFormat::kMarkdown, "file", meter.options(512));
    EXPECT_FALSE(passages.empty());
    EXPECT_LE(meter.n_bytes, 16 * text.size() + 8192) << text.substr(0, 20);
  }
}

TEST(Splitter, SplitsALineOfOneMebibyteBetweenCharacters) {
  const std::string text = repeat("\u4e2d\U0001F600\u00e9", (1 << 20) / 9);

  const auto passages = split_plain(text, 512);

  std::string joined;
  for (const Passage& p : passages) {
    ASSERT_EQ(invalid_utf8_offset(p.text), std::nullopt);
    joined += p.text;
  }
  EXPECT_EQ(joined, text);
}

std::string random_document(std::mt19937& random, bool with_headings) {
  const auto below = [&random](int n) {
    return std::uniform_int_distribution<int>(0, n - 1)(random);
  };
  const std::string_view pieces[] = {"word",
                                     " ",
                                     ". ",
                                     "\n",
                                     "\n\n",
                                     "\r\n\r\n",
                                     "Dr. ",
                                     "\u4e2d\u3002",
                                     "\U0001F600",
                                     "long-",
                                     "x y z ",
                                     "! ",
                                     "\u00e9",
                                     "```\n",
                                     "\t",
                                     "1. ",
                                     "\u201cso.\u201d "};
  std::string text;
  const int n = below(60);
  for (int i = 0; i < n; ++i) {
    if (with_headings && below(6) == 0) {
      text += "\n\n" + std::string(size_t(1 + below(3)), '#') + " h" + std::to_string(below(100)) +
              "\n";
    } else {
      text += pieces[below(int(std::size(pieces)))];
    }
  }
  return text;
}

std::string_view without_space(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos
             ? ""
             : s.substr(begin, s.find_last_not_of(" \t\r\n") + 1 - begin);
}

// What lies between passages: white space, and heading lines that the next passage has in its
// title.
void expect_only_titles(std::string_view gap, std::string_view next_title) {
  while (!gap.empty()) {
    const size_t end = std::min(gap.find('\n'), gap.size() - 1) + 1;
    const std::string_view line = without_space(gap.substr(0, end));
    gap.remove_prefix(end);
    if (line.empty()) continue;
    const size_t mark = line.find_first_not_of("# ");
    ASSERT_NE(mark, 0U) << line;
    ASSERT_THAT(" > " + std::string(next_title) + " > ",
                HasSubstr(" > " + std::string(line.substr(mark)) + " > "));
  }
}

void expect_sound_passage(std::string_view text, const Passage& p, const SplitOptions& options) {
  ASSERT_EQ(p.text, text.substr(p.begin, p.end - p.begin));
  ASSERT_EQ(p.text, without_space(p.text));
  ASSERT_FALSE(p.text.empty());
  ASSERT_EQ(invalid_utf8_offset(p.text), std::nullopt);
  ASSERT_LE(options.count_tokens(p.title, p.text), options.max_tokens) << p.text;
}

void expect_sound(std::string_view text, const std::vector<Passage>& passages,
                  const SplitOptions& options) {
  size_t at = 0;
  for (const Passage& p : passages) {
    ASSERT_LE(at, p.begin);
    expect_sound_passage(text, p, options);
    expect_only_titles(text.substr(at, p.begin - at), p.title);
    if (testing::Test::HasFatalFailure()) return;
    at = p.end;
  }
  ASSERT_EQ(without_space(text.substr(at)), "");
}

bool same(const std::vector<Passage>& a, const std::vector<Passage>& b) {
  return titles(a) == titles(b) && texts(a) == texts(b);
}

TEST(SplitterProperty, EveryByteIsInOnePassageOrATitleAndNoPassageIsTooLong) {
  std::mt19937 random(81);
  for (int round = 0; round < 3000; ++round) {
    const bool is_markdown = round % 2 == 0;
    // A file name and a full stop, so that no first line of plain text is taken for a title.
    const std::string text = (is_markdown ? "" : "Start.\n") + random_document(random, is_markdown);
    const DocumentFormat format =
        is_markdown ? DocumentFormat::kMarkdown : DocumentFormat::kPlainText;
    SplitOptions options = limit(20 + round % 50);
    if (round % 5 == 1) options.count_tokens = word_tokens;
    if (round % 5 == 2) options.count_tokens = jumpy_tokens;

    const auto passages = split_document(text, format, "f", options);

    ASSERT_NO_FATAL_FAILURE(expect_sound(text, passages, options)) << "round " << round << ":\n"
                                                                   << text;
    ASSERT_TRUE(same(passages, split_document(text, format, "f", options))) << "not the same twice";
  }
}

// With a limit of a few tokens titles are cut short, so only the body of plain text is compared.
TEST(SplitterProperty, HoldsAtTheSmallestLimits) {
  std::mt19937 random(82);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = "Start.\n" + random_document(random, false);
    SplitOptions options = limit(2 + round % 10);
    if (round % 2 == 1) options = {.max_tokens = 5 + round % 10, .count_tokens = jumpy_tokens};

    const auto passages = split_document(text, DocumentFormat::kPlainText, "file", options);

    ASSERT_NO_FATAL_FAILURE(expect_sound(text, passages, options)) << "round " << round << ":\n"
                                                                   << text;
  }
}

}  // namespace
}  // namespace tessera
