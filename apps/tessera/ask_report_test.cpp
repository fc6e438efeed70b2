#include "tessera/ask_report.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

AdaptiveReport report_of(int32_t n_rounds, bool is_confident) {
  AdaptiveReport out;
  out.n_given = 6;
  out.n_seen = n_rounds;
  out.is_confident = is_confident;
  out.repeated_rows = 30.0 * (n_rounds - 1);
  out.break_even_rounds = 1.9;
  out.rounds.resize(static_cast<size_t>(n_rounds));
  out.rounds.back().confidence = is_confident ? 0.72 : 0.28;
  return out;
}

Request adaptive_request(const char* policy) {
  Request out;
  out.policy = policy;
  out.adaptive.emplace();
  return out;
}

TEST(AccountText, NamesEveryPartThatHasTokens) {
  EXPECT_EQ(account_text({24, 338, 73, 43, 30}),
            "508 prompt tokens: 24 exact, 338 soft, 73 independent, 43 recomputed, 30 new");
  EXPECT_EQ(account_text({.fresh = 30}), "30 prompt tokens: 30 new");
}

TEST(ReadingText, SaysHowAChunkWasFound) {
  SegmentReport chunk;
  chunk.kind = SegmentKind::kChunk;
  chunk.n_tokens = 80;
  EXPECT_EQ(reading_text(chunk), "computed, 80 tokens");

  chunk.match = Match::kSoft;
  chunk.recomputed = 6;
  EXPECT_EQ(reading_text(chunk), "soft, 80 tokens, 6 of them recomputed");
}

TEST(ChunksOf, LeavesOutWhatIsNoPassage) {
  Answer answer;
  for (const SegmentKind kind :
       {SegmentKind::kPreamble, SegmentKind::kChunk, SegmentKind::kChunk, SegmentKind::kQuery})
    answer.segments.emplace_back().kind = kind;

  EXPECT_EQ(chunks_of(answer).size(), 2);
}

TEST(ConfigurationName, TellsAdaptiveContextFromAllPassages) {
  Request whole;
  whole.policy = "full";

  EXPECT_EQ(configuration_name(whole), "full");
  EXPECT_EQ(configuration_name(adaptive_request("full")), "full+adaptive");
}

TEST(AdaptiveText, SaysHowSureItIsAndWhatItCost) {
  const Request request = adaptive_request("adacache");

  EXPECT_EQ(adaptive_text(request, report_of(6, false)),
            "read 6 of 6 passages in 6 rounds: confidence 0.28, not above tau 0.50; 150 rows of "
            "the question computed again: cheaper than all at once up to 1.9 rounds, so dearer "
            "here");
  EXPECT_EQ(adaptive_text(request, report_of(2, true)),
            "read 2 of 6 passages in 2 rounds: confidence 0.72, above tau 0.50; 30 rows of the "
            "question computed again: cheaper than all at once up to 1.9 rounds, so dearer here");
  EXPECT_EQ(adaptive_text(request, report_of(1, true)),
            "read 1 of 6 passages in 1 round: confidence 0.72, above tau 0.50");
}

TEST(AdaptiveText, CallsNothingDearerUpToBreakEven) {
  AdaptiveReport report = report_of(2, true);
  report.break_even_rounds = 2;

  EXPECT_EQ(adaptive_text(adaptive_request("full"), report),
            "read 2 of 6 passages in 2 rounds: confidence 0.72, above tau 0.50; 30 rows of the "
            "question computed again: cheaper than all at once up to 2.0 rounds");
}

TEST(AdaptiveText, NamesTheProbeWhereItIsOfTheQuestion) {
  AdaptiveReport report = report_of(2, true);
  report.rounds.front().probe_rows = 10;

  EXPECT_NE(
      adaptive_text(adaptive_request("query_aware"), report).find(", the probe's among them,"),
      std::string::npos);
  EXPECT_EQ(adaptive_text(adaptive_request("cacheblend"), report).find("probe"), std::string::npos);
}

TEST(AdaptiveText, SaysADifferenceThatRoundingHides) {
  AdaptiveReport report = report_of(1, false);
  report.rounds.back().confidence = 0.499999;

  EXPECT_EQ(adaptive_text(adaptive_request("full"), report),
            "read 1 of 6 passages in 1 round: confidence 0.50, not above tau 0.50");
}

}  // namespace
}  // namespace tessera
