#include "retrieval/sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;

std::vector<Section> markdown(std::string_view text) {
  return find_sections(text, 0, DocumentFormat::kMarkdown, "file");
}

TEST(Sections, FollowOneAnotherAndCarryTheOpenHeadings) {
  const std::string_view text = "intro\n\n# A\n\n### B\n\nb\n\n## C\n\nc\n\n# D\nd";

  const auto sections = markdown(text);

  ASSERT_EQ(sections.size(), 5U);
  EXPECT_THAT(sections[0].path, ElementsAre("file"));
  EXPECT_THAT(sections[1].path, ElementsAre("file", "A"));
  EXPECT_THAT(sections[2].path, ElementsAre("file", "A", "B"));
  EXPECT_THAT(sections[3].path, ElementsAre("file", "A", "C"));
  EXPECT_THAT(sections[4].path, ElementsAre("file", "D"));
  EXPECT_TRUE(sections[1].is_blank);
  for (size_t i = 0; i + 1 < sections.size(); ++i)
    EXPECT_EQ(sections[i].end, sections[i + 1].begin);
  EXPECT_EQ(sections.back().end, text.size());
}

TEST(Sections, TextThatLooksLikeAHeadingIsText) {
  for (const std::string_view text :
       {"a\nb\n---\nc", "- item\n---\nc", "a | b\n--- | ---\n1 | 2", "x\n\n---\n\ny",
        "#hashtag\n\nx", "    # code\n\nx", "####### seven\n\nx", "C#\n\nx", "1. one\n--\nx",
        "> quote\n---\nx", "x\n-\ny", "##\n\nx", "a\n-- -\nb", "---\n# in front matter\n---\nx",
        "---\n# y\n...\nx", "```\n# code\n```\nx", "2\n", "1984\n\nx"}) {
    const auto sections = markdown(text);
    ASSERT_EQ(sections.size(), 1U) << text;
    EXPECT_EQ(sections[0].body_begin, 0U) << text;
  }
}

TEST(Sections, HeadingsAreFoundInTheirForms) {
  for (const std::string_view text :
       {"# T\nx", "#\tT\nx", "   # T #\nx", "# T ###\r\nx", "T\n==\nx", "T\r\n=====  \r\nx",
        "\n\n# T\nx", "---\n\n# T\nx"}) {
    const auto sections = markdown(text);
    EXPECT_EQ(sections.back().path.back(), "T") << text;
    EXPECT_EQ(text.substr(sections.back().body_begin), "x") << text;
  }
}

TEST(Sections, AVeryLongHeadingIsText) {
  EXPECT_EQ(markdown("# " + std::string(300, 'a') + "\n\nx")[0].body_begin, 0U);
  EXPECT_NE(markdown("# " + std::string(100, 'a') + "\n\nx")[0].body_begin, 0U);
}

}  // namespace
}  // namespace tessera
