#include "tessera/ask_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "tessera/format.h"

namespace tessera {
namespace {

uint64_t whole(double rows) { return static_cast<uint64_t>(std::llround(std::max(rows, 0.0))); }

// Says which is greater: two digits may look equal.
std::string confidence_text(double confidence, double threshold, bool is_confident) {
  return fmt::format("confidence {:.2f}, {}above tau {:.2f}", confidence,
                     is_confident ? "" : "not ", threshold);
}

std::string break_even_text(const AdaptiveReport& report) {
  const bool is_dearer = static_cast<double>(report.rounds.size()) > report.break_even_rounds;
  return fmt::format("cheaper than all at once up to {:.1f} rounds{}", report.break_even_rounds,
                     is_dearer ? ", so dearer here" : "");
}

// Evidence from the question's own rows is gathered anew in each round.
bool repeats_probe(const Request& request, const AdaptiveReport& report) {
  const bool probes_question =
      make_policy(request.policy, request.policy_options)->evidence() == Evidence::kQueryAttention;
  return probes_question && std::any_of(report.rounds.begin(), report.rounds.end(),
                                        [](const Round& round) { return round.probe_rows > 0; });
}

}  // namespace

std::string account_text(const Account& a) {
  const std::pair<int32_t, const char*> parts[] = {{a.exact, "exact"},
                                                   {a.soft, "soft"},
                                                   {a.independent, "independent"},
                                                   {a.recomputed, "recomputed"},
                                                   {a.fresh, "new"}};
  std::vector<std::string> texts;
  for (const auto& [n, name] : parts) {
    if (n > 0) texts.push_back(fmt::format("{} {}", n, name));
  }
  return fmt::format("{} prompt tokens: {}", a.total(), fmt::join(texts, ", "));
}

std::vector<SegmentReport> chunks_of(const Answer& answer) {
  std::vector<SegmentReport> out;
  std::copy_if(answer.segments.begin(), answer.segments.end(), std::back_inserter(out),
               [](const SegmentReport& s) { return s.kind == SegmentKind::kChunk; });
  return out;
}

std::string reading_text(const SegmentReport& chunk) {
  std::string out =
      fmt::format("{}, {}", chunk.match == Match::kMiss ? "computed" : match_name(chunk.match),
                  counted(static_cast<uint64_t>(chunk.n_tokens), "token"));
  if (chunk.recomputed > 0) out += fmt::format(", {} of them recomputed", chunk.recomputed);
  return out;
}

std::string configuration_name(const Request& request) {
  return request.policy + (request.adaptive ? "+adaptive" : "");
}

std::string adaptive_text(const Request& request, const AdaptiveReport& r) {
  CHECK(request.adaptive && !r.rounds.empty());
  std::string out = fmt::format(
      "read {} of {} in {}: {}", r.n_seen, counted(static_cast<uint64_t>(r.n_given), "passage"),
      counted(r.rounds.size(), "round"),
      confidence_text(r.rounds.back().confidence, request.adaptive->threshold, r.is_confident));
  if (const uint64_t repeated = whole(r.repeated_rows); repeated > 0) {
    out += fmt::format("; {} of the question{} computed again: {}", counted(repeated, "row"),
                       repeats_probe(request, r) ? ", the probe's among them," : "",
                       break_even_text(r));
  }
  return out;
}

}  // namespace tessera
