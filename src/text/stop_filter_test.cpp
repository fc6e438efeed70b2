#include "text/stop_filter.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Whatever the split into pieces, the stream is the text cut before its first stop string.
std::string stream(const std::string& text, size_t piece, const std::vector<std::string>& stops) {
  StopFilter filter(stops);
  std::string out;
  for (size_t i = 0; i < text.size(); i += piece)
    out += filter.push(std::string_view(text).substr(i, piece));
  return out + filter.finish();
}

TEST(StopFilter, EverySplitEqualsTheWholeTextCut) {
  const std::string text = "the quick brown fox\nUser: abababc";
  for (const std::string stop :
       {"own fox", "\nUser:", "u", "ababc", "absent", "\nUser: abababcd"}) {
    const std::string expected = text.substr(0, text.find(stop));
    for (size_t piece = 1; piece <= text.size(); ++piece)
      EXPECT_EQ(stream(text, piece, {stop}), expected) << stop << piece;
  }
}

TEST(StopFilter, EarliestOfSeveralWins) {
  EXPECT_EQ(stream("one two three", 2, {"three", "two"}), "one ");
}

TEST(StopFilter, HeldBackTailComesAtTheEnd) {
  StopFilter filter({"abc"});
  EXPECT_EQ(filter.push("xab"), "x");
  EXPECT_EQ(filter.finish(), "ab");
}

TEST(StopFilter, EmptyStopStringsDoNothing) { EXPECT_EQ(stream("text", 1, {""}), "text"); }

}  // namespace
}  // namespace tessera
