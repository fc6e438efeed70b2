#pragma once
// A request answered by its policy and by full prefill, and how far apart they are.
//
// Runs on the thread of the engine it is given and overwrites that engine's working KV: what was
// prefilled before is void. Throws what Engine::prefill and Engine::generate throw.
#include <span>
#include <stop_token>

#include "engine/engine.h"

namespace tessera {

// Over the positions of full prefill's own greedy answer, teacher-forced, at most kCompareTokens of
// them.
struct Distance {
  double mean_kl = 0;  // KL(full || policy) in nats
  double top1 = 1;     // share of positions whose likeliest token is the same
  int32_t n_positions = 0;
};

// Both greedy: the distance is taken along full's own answer.
struct Comparison {
  Answer full;
  Answer policy;
  Distance distance;
  Prefilled prefilled;       // of the policy's request, for Engine::commit
  bool same_answer = false;  // the two texts are equal
  double ttft_ratio() const { return full.timings.ttft_ms() / policy.timings.ttft_ms(); }
};

inline constexpr int32_t kCompareTokens = 32;

// Rows of logits, [n, n_vocab]: as many in one as in the other. Pure; thread-safe.
Distance distance_between(std::span<const float> full, std::span<const float> policy,
                          int32_t n_vocab);

// Full prefill of one request: what its other policies are held against.
struct Reference {
  Answer answer;
  std::vector<int32_t> tokens;  // of the answer, at most kCompareTokens
  std::vector<float> logits;    // that predict them, [tokens, n_vocab]
};
Reference full_reference(Engine& engine, Request request, const std::stop_token& stop = {});

// `reference`: of the same engine, passages and question. `sink` gets the policy's text as it
// comes. Nothing is committed: that is the caller's to do, when the result is out.
Comparison compare_with(Engine& engine, const Reference& reference, const Request& request,
                        const Engine::TextSink& sink = {}, const std::stop_token& stop = {});
Comparison compare_with_full(Engine& engine, const Request& request,
                             const Engine::TextSink& sink = {}, const std::stop_token& stop = {});

}  // namespace tessera
