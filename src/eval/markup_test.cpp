#include "eval/markup.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(EscapeMarkup, LeavesNothingThatMarkupReads) {
  EXPECT_EQ(escape_markup("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape_markup("&lt;"), "&amp;lt;");
}

TEST(EscapeMarkup, KeepsWholeCharactersAndMendsOthers) {
  EXPECT_EQ(escape_markup("\xC3\xA9t\xC3\xA9"), "\xC3\xA9t\xC3\xA9");
  EXPECT_EQ(escape_markup("a\xFF"
                          "b\xC3"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(escape_markup("a\n\x01"
                          "b\x7F"),
            "a  b ");
  EXPECT_EQ(escape_markup("\xEF\xBF\xBF"), "\xEF\xBF\xBD") << "U+FFFF is no XML";
}

}  // namespace
}  // namespace tessera
