#include "eval/tuning.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "base/check.h"
#include "eval/metrics.h"
#include "eval/statistics.h"

namespace tessera {
namespace {

// Means of the same questions added up in another order differ by as much.
constexpr double kRounding = 1e-9;
// A scale of 0 would divide by it: where all layers agree fully, any KL above this is doubt.
constexpr double kSmallestKlScale = 1e-6;
constexpr std::array kQuantiles = {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0};

// The passages seen before it stops.
size_t passages_seen(const AdaptiveQuestion& question, const ConfidenceOptions& confidence,
                     double threshold, int32_t n_vocab) {
  size_t n = 1;
  while (n < question.certainty.size() &&
         confidence_of(question.certainty[n - 1], confidence, n_vocab) <= threshold)
    ++n;
  return n;
}

std::vector<double> sorted_confidence(std::span<const AdaptiveQuestion> questions,
                                      const ConfidenceOptions& confidence, int32_t n_vocab) {
  std::vector<double> out;
  for (const AdaptiveQuestion& question : questions) {
    for (const Certainty& certainty : question.certainty)
      out.push_back(confidence_of(certainty, confidence, n_vocab));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Of every other question, from the first or the second on.
std::vector<GridPoint> half_of(std::span<const GridPoint> points, size_t half) {
  std::vector<GridPoint> out;
  for (const GridPoint& point : points) {
    if (point.question % 2 == half) out.push_back(point);
  }
  return out;
}

std::vector<AdaptiveQuestion> half_of(std::span<const AdaptiveQuestion> questions, size_t half) {
  std::vector<AdaptiveQuestion> out;
  for (size_t i = half; i < questions.size(); i += 2) out.push_back(questions[i]);
  return out;
}

bool needs_less(const AdaptiveLine& a, const AdaptiveLine& b) {
  return std::tie(a.rows_share, a.f1_loss, a.lambda, a.threshold) <
         std::tie(b.rows_share, b.f1_loss, b.lambda, b.threshold);
}

}  // namespace

std::string_view loss_metric_name(LossMetric metric) {
  return metric == LossMetric::kKl ? "kl" : "f1_loss";
}

std::vector<GridLine> grid_lines(std::span<const GridPoint> points) {
  std::map<double, GridLine> by_setting;
  for (const GridPoint& point : points) {
    GridLine& line = by_setting[point.setting];
    line.setting = point.setting;
    line.loss += point.loss;
    line.rows_share += point.rows_share;
    ++line.n;
  }
  std::vector<GridLine> out;
  for (auto& [setting, line] : by_setting) {
    line.loss /= static_cast<double>(line.n);
    line.rows_share /= static_cast<double>(line.n);
    out.push_back(line);
  }
  return out;
}

std::optional<GridLine> smallest_within(std::span<const GridLine> lines, double bound) {
  std::optional<GridLine> out;
  for (const GridLine& line : lines) {
    const bool is_within = line.loss <= bound + kRounding;
    if (is_within && (!out || line.setting < out->setting)) out = line;
  }
  return out;
}

std::optional<double> cross_fitted_loss(std::span<const GridPoint> points, double bound) {
  double loss = 0;
  size_t n = 0;
  for (const size_t half : {size_t{0}, size_t{1}}) {
    const std::vector<GridLine> chosen_over = grid_lines(half_of(points, half));
    const std::vector<GridLine> measured_over = grid_lines(half_of(points, 1 - half));
    if (chosen_over.empty() || measured_over.empty()) return std::nullopt;
    const double setting = smallest_within(chosen_over, bound).value_or(chosen_over.back()).setting;
    for (const GridLine& line : measured_over) {
      if (line.setting != setting) continue;
      loss += line.loss * static_cast<double>(line.n);
      n += line.n;
    }
  }
  if (n == 0) return std::nullopt;
  return loss / static_cast<double>(n);
}

double kl_scale_of(std::span<const AdaptiveQuestion> questions) {
  std::vector<double> kl;
  for (const AdaptiveQuestion& question : questions) {
    for (const Certainty& certainty : question.certainty) kl.push_back(certainty.kl.value_or(0));
  }
  CHECK(!kl.empty());
  return std::max(median(std::move(kl)), kSmallestKlScale);
}

AdaptiveLine adaptive_line(std::span<const AdaptiveQuestion> questions,
                           const ConfidenceOptions& confidence, double threshold, int32_t n_vocab) {
  CHECK(!questions.empty());
  AdaptiveLine out = {.lambda = confidence.lambda, .threshold = threshold};
  double rows = 0, rows_at_once = 0, f1_of_all = 0;
  for (const AdaptiveQuestion& q : questions) {
    CHECK(!q.f1.empty() && q.f1.size() == q.certainty.size() && q.f1.size() == q.rows.size());
    const size_t n_seen = passages_seen(q, confidence, threshold, n_vocab);
    out.passages += static_cast<double>(n_seen);
    out.f1 += q.f1[n_seen - 1];
    f1_of_all += q.f1.back();
    rows_at_once += q.rows_at_once;
    for (size_t i = 0; i < n_seen; ++i) rows += q.rows[i];
  }
  const auto n = static_cast<double>(questions.size());
  out.passages /= n;
  out.f1 /= n;
  out.f1_loss = f1_of_all / n - out.f1;
  out.rows_share = rows / std::max(rows_at_once, 1.0);
  return out;
}

std::vector<AdaptiveLine> adaptive_grid(std::span<const AdaptiveQuestion> questions,
                                        std::span<const double> lambdas, double kl_scale,
                                        int32_t n_vocab) {
  std::vector<AdaptiveLine> out;
  for (const double lambda : lambdas) {
    const ConfidenceOptions confidence = {.lambda = lambda, .kl_scale = kl_scale};
    const std::vector<double> sorted = sorted_confidence(questions, confidence, n_vocab);
    CHECK(!sorted.empty());
    for (const double q : kQuantiles)
      out.push_back(adaptive_line(questions, confidence, quantile(sorted, q), n_vocab));
  }
  return out;
}

std::optional<AdaptiveLine> choose_adaptive(std::span<const AdaptiveLine> lines,
                                            double max_f1_loss) {
  std::optional<AdaptiveLine> out;
  for (const AdaptiveLine& line : lines) {
    const bool is_within = line.f1_loss <= max_f1_loss + kRounding && line.rows_share < 1;
    if (is_within && (!out || needs_less(line, *out))) out = line;
  }
  return out;
}

std::optional<double> cross_fitted_loss(std::span<const AdaptiveQuestion> questions,
                                        const AdaptiveChoice& choice) {
  if (questions.size() < 2) return std::nullopt;
  double loss = 0;
  for (const size_t half : {size_t{0}, size_t{1}}) {
    const std::vector<AdaptiveQuestion> chosen_over = half_of(questions, half);
    const std::vector<AdaptiveQuestion> measured_over = half_of(questions, 1 - half);
    const double kl_scale = kl_scale_of(chosen_over);
    const std::optional<AdaptiveLine> chosen = choose_adaptive(
        adaptive_grid(chosen_over, choice.lambdas, kl_scale, choice.n_vocab), choice.max_f1_loss);
    if (!chosen) continue;
    const AdaptiveLine line =
        adaptive_line(measured_over, {.lambda = chosen->lambda, .kl_scale = kl_scale},
                      chosen->threshold, choice.n_vocab);
    loss += line.f1_loss * static_cast<double>(measured_over.size());
  }
  return loss / static_cast<double>(questions.size());
}

std::vector<AdaptiveLine> pareto_front(std::span<const AdaptiveLine> lines) {
  std::vector<AdaptiveLine> sorted(lines.begin(), lines.end());
  std::sort(sorted.begin(), sorted.end(), needs_less);
  std::vector<AdaptiveLine> out;
  double least_loss = std::numeric_limits<double>::infinity();
  for (const AdaptiveLine& line : sorted) {
    if (line.f1_loss >= least_loss) continue;
    least_loss = line.f1_loss;
    out.push_back(line);
  }
  return out;
}

}  // namespace tessera
