#include "engine/adaptive.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "text/prompt.h"

namespace tessera {

// Written so that NaN is refused too.
void check_adaptive(const AdaptiveContext& a) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::kInvalidRequest, what);
  };
  if (a.step < 1)
    refuse(fmt::format("adaptive step {} - adds no passages - give 1 or more", a.step));
  if (!(a.confidence.lambda >= 0 && a.confidence.lambda <= 1)) {
    refuse(
        fmt::format("lambda {} is out of range - it weighs the layers' agreement against the "
                    "entropy - give a number from 0 to 1",
                    a.confidence.lambda));
  }
  if (!(a.confidence.kl_scale > 0) || !std::isfinite(a.confidence.kl_scale)) {
    refuse(
        fmt::format("KL scale {} is out of range - it is the divergence of a model that is "
                    "neither sure nor unsure, in nats - give a number above 0",
                    a.confidence.kl_scale));
  }
  if (std::isnan(a.threshold)) refuse("the threshold is no number - give one, from 0 to 1");
}

// The prompt with the first `n` passages only.
Prompt with_passages(const Prompt& whole, size_t n) {
  PromptAssembler assembler;
  size_t passage = 0;
  for (const Segment& s : whole.segments) {
    if (s.kind == SegmentKind::kChunk && passage++ >= n) continue;
    assembler.add(s.kind, {whole.ids.begin() + s.range.begin, whole.ids.begin() + s.range.end});
  }
  return assembler.take();
}

void add_round(const AdaptiveContext& adaptive, std::span<const float> logits, int32_t n_vocab,
               Round round, AdaptiveReport& report) {
  round.certainty = certainty_of(logits, n_vocab);
  round.confidence = confidence_of(round.certainty, adaptive.confidence, n_vocab);
  report.is_confident = round.confidence > adaptive.threshold;
  report.n_seen = round.n_passages;
  report.rounds.push_back(round);
}

// Rounds of `step` passages compute r(step * c + q) rows, all k at once k * c + q, with c rows of a
// passage and q of the question.
void finish_report(const AdaptiveContext& adaptive, const ReusePlan& plan, bool probes_question,
                   AdaptiveReport& report) {
  double of_probes = 0, of_passages = 0;
  for (const Round& round : report.rounds) of_probes += round.probe_rows;
  for (const Segment& s : plan.segments) {
    if (s.kind == SegmentKind::kChunk) of_passages += rows_within(plan.rows, s.range).size();
  }
  const auto n_rounds = static_cast<double>(report.rounds.size());
  double question = plan.segments.back().range.size();
  if (probes_question) {
    question += of_probes / n_rounds;
  } else {
    of_passages += of_probes;
  }
  const double each = report.n_seen > 0 ? of_passages / report.n_seen : 0.0;
  report.repeated_rows = (n_rounds - 1) * question;
  report.break_even_rounds = (report.n_given * each + question) / (adaptive.step * each + question);
}

}  // namespace tessera
