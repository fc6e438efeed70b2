#pragma once
// Chooses the settings of reuse from what was measured over a grid of them: docs/TUNING.md. Pure;
// thread-safe.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reuse/confidence.h"

namespace tessera {

// What a setting may cost against full prefill: nats of KL, or points of F1 (0..1).
enum class LossMetric { kKl, kF1 };
std::string_view loss_metric_name(LossMetric metric);  // "kl", "f1_loss"

// One setting (a ratio of recompute) on one question.
struct GridPoint {
  double setting = 0;
  double loss = 0;
  double rows_share = 0;  // rows computed / N
  size_t question = 0;    // counted from 0, the same at every setting
};

// One setting over all questions: means. The loss of a line that is chosen by it is in sample, and
// so too low.
struct GridLine {
  double setting = 0;
  double loss = 0;
  double rows_share = 0;
  size_t n = 0;  // questions
};

// Ascending by setting.
std::vector<GridLine> grid_lines(std::span<const GridPoint> points);

// The line of the smallest setting whose mean loss is at most `bound`; none: no setting is.
std::optional<GridLine> smallest_within(std::span<const GridLine> lines, double bound);

// What the choice of smallest_within() loses where it was not made: chosen over every other
// question and measured over the rest, and back; the mean over all of them. The largest setting
// stands in where none is within the bound. None of fewer than two questions, and where
// the halves have no settings in common.
std::optional<double> cross_fitted_loss(std::span<const GridPoint> points, double bound);

// One question whose passages came one by one: entry i is of the first i + 1 of them. All three
// have one entry per passage, at least one.
struct AdaptiveQuestion {
  std::vector<Certainty> certainty = {};
  std::vector<double> rows = {};  // computed in that round, the question's repeated ones included
  std::vector<double> f1 = {};    // of the answer over these passages
  double rows_at_once = 0;        // computed where all passages are there from the start
};

// c of the confidence: the median of all rounds' KL, at least a small positive number. Needs at
// least one question.
double kl_scale_of(std::span<const AdaptiveQuestion> questions);

// What a pair of lambda and tau would have done, over all questions.
struct AdaptiveLine {
  double lambda = 0;
  double threshold = 0;
  double passages = 0;    // seen, mean
  double rows_share = 0;  // rows of all rounds / rows of all passages at once; above 1 it loses
  double f1 = 0;          // at the stop, mean
  double f1_loss = 0;     // against all passages
};
AdaptiveLine adaptive_line(std::span<const AdaptiveQuestion> questions,
                           const ConfidenceOptions& confidence, double threshold, int32_t n_vocab);

// Every lambda with thresholds at quantiles of the confidence that it gives; the highest one never
// stops.
std::vector<AdaptiveLine> adaptive_grid(std::span<const AdaptiveQuestion> questions,
                                        std::span<const double> lambdas, double kl_scale,
                                        int32_t n_vocab);

// The line with the fewest rows whose F1 loss is at most `max_f1_loss`, of equals the one that
// loses less; none where none is, or where the fewest are no fewer than those of all at once.
std::optional<AdaptiveLine> choose_adaptive(std::span<const AdaptiveLine> lines,
                                            double max_f1_loss);

// What adaptive context is chosen from and by.
struct AdaptiveChoice {
  std::span<const double> lambdas;
  double max_f1_loss = 0;
  int32_t n_vocab = 0;
};

// The F1 loss of choose_adaptive() as cross_fitted_loss() takes it, the KL scale of each half its
// own. All passages stand in where nothing is chosen.
std::optional<double> cross_fitted_loss(std::span<const AdaptiveQuestion> questions,
                                        const AdaptiveChoice& choice);

// The lines of which no other is better in one of F1 loss and rows and as good in the other;
// ascending by rows. Of equal ones the first.
std::vector<AdaptiveLine> pareto_front(std::span<const AdaptiveLine> lines);

}  // namespace tessera
