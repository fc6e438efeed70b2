#pragma once
// What an engine is asked. Plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/chunk.h"
#include "reuse/confidence.h"
#include "reuse/policy.h"
#include "text/sampler.h"

namespace tessera {

struct PassageText {
  std::string title;
  std::string text;
};

// Passages are added a few at a time until the model is sure of its first token (AdaCache's
// adaptive context augmentation; DESIGN.md section 6.2), under any policy. The question is computed
// anew each time; what stands before it stays.
struct AdaptiveContext {
  int32_t step = 1;  // passages a round
  ConfidenceOptions confidence;
  double threshold = 0.5;  // tau: a round whose confidence is higher is the last
};

struct Request {
  std::vector<PassageText> passages;  // in the order in which they stand in the prompt
  std::string question;
  std::optional<std::string> system;  // another system message than the store's
  std::string policy = std::string(kDefaultPolicy);
  PolicyOptions policy_options;
  std::optional<AdaptiveContext> adaptive;  // empty: all passages at once
  AnchorKind anchor = AnchorKind::kLeadin;
  int32_t max_tokens = 64;
  SamplerOptions sampler;
  std::vector<std::string> stop;
};

}  // namespace tessera
