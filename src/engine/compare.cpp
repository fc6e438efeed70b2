#include "engine/compare.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tessera {
namespace {

// log softmax(row) as offset: log p_i = row_i - offset.
double log_sum_exp(std::span<const float> row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(x - top);
  return top + std::log(sum);
}

double divergence(std::span<const float> p, std::span<const float> q) {
  const double log_p = log_sum_exp(p);
  const double log_q = log_sum_exp(q);
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double lp = p[i] - log_p;
    kl += std::exp(lp) * (lp - (q[i] - log_q));
  }
  return std::max(kl, 0.0);  // in this order NaN stays NaN
}

}  // namespace

Distance distance_between(std::span<const float> full, std::span<const float> policy,
                          int32_t n_vocab) {
  CHECK(full.size() == policy.size() && n_vocab > 0 &&
        full.size() % static_cast<size_t>(n_vocab) == 0);
  const auto width = static_cast<size_t>(n_vocab);
  Distance d;
  d.n_positions = static_cast<int32_t>(full.size() / width);
  if (d.n_positions == 0) return d;
  double kl = 0;
  int32_t same = 0;
  for (size_t at = 0; at < full.size(); at += width) {
    const std::span<const float> p = full.subspan(at, width);
    const std::span<const float> q = policy.subspan(at, width);
    kl += divergence(p, q);
    same += std::max_element(p.begin(), p.end()) - p.begin() ==
                    std::max_element(q.begin(), q.end()) - q.begin()
                ? 1
                : 0;
  }
  d.mean_kl = kl / d.n_positions;
  d.top1 = static_cast<double>(same) / d.n_positions;
  return d;
}

Reference full_reference(Engine& engine, Request request, const std::stop_token& stop) {
  request.policy = "full";
  request.adaptive.reset();
  request.sampler = SamplerOptions{};
  Reference out;
  Prefilled full = engine.prefill(request, stop);
  out.answer = engine.generate(request, full, {}, stop);
  out.tokens = out.answer.tokens;
  out.tokens.resize(std::min<size_t>(out.tokens.size(), kCompareTokens));
  out.logits = engine.forced_logits(full, out.tokens);
  return out;
}

Comparison compare_with(Engine& engine, const Reference& reference, const Request& request,
                        const Engine::TextSink& sink, const std::stop_token& stop) {
  Request greedy = request;
  greedy.sampler = SamplerOptions{};
  Comparison out;
  out.full = reference.answer;
  out.prefilled = engine.prefill(greedy, stop);
  out.policy = engine.generate(greedy, out.prefilled, sink, stop);
  const std::vector<float> got = engine.forced_logits(out.prefilled, reference.tokens);
  out.distance = distance_between(reference.logits, got, engine.decoder().config().n_vocab);
  out.same_answer = out.full.text == out.policy.text;
  return out;
}

Comparison compare_with_full(Engine& engine, const Request& request, const Engine::TextSink& sink,
                             const std::stop_token& stop) {
  return compare_with(engine, full_reference(engine, request, stop), request, sink, stop);
}

}  // namespace tessera
