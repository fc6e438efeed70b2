#include "eval/rechunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CutText, PiecesEndWithSentencesAndFit) {
  EXPECT_THAT(cut_text("One two. Three four. Five six.", 20),
              ElementsAre("One two. Three four.", "Five six."));
  EXPECT_THAT(cut_text("One two. Three four. Five six.", 19),
              ElementsAre("One two.", "Three four.", "Five six."));
}

TEST(CutText, WordThatDoesNotFitIsCutBetweenCharacters) {
  EXPECT_THAT(cut_text("abcdefghij", 4), ElementsAre("abcd", "efgh", "ij"));
  EXPECT_THAT(cut_text("\u00e4\u00f6\u00fc\u00e4", 5), ElementsAre("\u00e4\u00f6", "\u00fc\u00e4"));
}

TEST(CutText, WhiteSpaceAroundPiecesIsNoPartOfThem) {
  EXPECT_THAT(cut_text(" \n a b \n", 100), ElementsAre("a b"));
  EXPECT_THAT(cut_text(" \n ", 4), IsEmpty());
}

std::vector<std::string> texts(const std::vector<PassageText>& passages) {
  std::vector<std::string> out;
  for (const PassageText& p : passages) {
    EXPECT_EQ(p.title, "");
    out.push_back(p.text);
  }
  return out;
}

TEST(Rechunked, NeighboursAreJoinedWithTheirTitlesInTheirOrder) {
  const std::vector<PassageText> passages = {{"A", "One."}, {"", "Two."}, {"B", "Three."}};

  EXPECT_THAT(texts(rechunked(passages, 100)), ElementsAre("A: One.\nTwo.\nB: Three."));
}

TEST(Rechunked, PiecesAreOfAtMostSoManyTokensWorth) {
  const std::vector<PassageText> passages = {{"A", "One two."}, {"", "Three four. Five six."}};

  // "A: One two.\n" is 12 bytes, "Three four. Five six." 21: 24 and 44 bytes.
  EXPECT_THAT(texts(rechunked(passages, 6)), ElementsAre("A: One two.\nThree four.", "Five six."));
  EXPECT_THAT(texts(rechunked(passages, 11)), ElementsAre("A: One two.\nThree four. Five six."));
}

TEST(Rechunked, WithoutPassagesThereIsNothingToCut) { EXPECT_THAT(rechunked({}, 64), IsEmpty()); }

}  // namespace
}  // namespace tessera
