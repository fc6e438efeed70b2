#pragma once
// Adaptive context: what a round adds, how sure it left the model, and what was computed for it
// (DESIGN.md section 6.2). Pure; thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "kv/account.h"
#include "kv/segment.h"

namespace tessera {

// One round of adaptive context.
struct Round {
  int32_t n_passages = 0;  // in the prompt
  Certainty certainty;
  double confidence = 0;
  int32_t rows = 0;       // computed in it, those of the question included
  double probe_rows = 0;  // as in Prefilled
  double ms = 0;
};

// What adaptive context saw, and why it stopped.
struct AdaptiveReport {
  int32_t n_given = 0, n_seen = 0;  // passages
  bool is_confident = false;        // else it came to the last passage
  double repeated_rows = 0;         // of the question, in the rounds before the last: in no account
  // Rounds that compute as many rows as all passages at once would; more of them lose.
  double break_even_rounds = 0;
  std::vector<Round> rounds;
};

// Throws Error(kInvalidRequest) for values out of range.
void check_adaptive(const AdaptiveContext& adaptive);

// The prompt with the first `n` passages only.
Prompt with_passages(const Prompt& whole, size_t n);

// Enters a round, whose passages, rows and time are known. `logits`: of the prompt's last token,
// [layers, n_vocab], the model's last ones.
void add_round(const AdaptiveContext& adaptive, std::span<const float> logits, int32_t n_vocab,
               Round round, AdaptiveReport& report);

// After the last round: what was repeated, and from how many rounds on they lose. A probe's rows
// are the question's where it `probes_question`, else the passages'.
void finish_report(const AdaptiveContext& adaptive, const ReusePlan& plan, bool probes_question,
                   AdaptiveReport& report);

}  // namespace tessera
