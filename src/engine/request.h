#pragma once
// What an engine is asked. Plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/chunk.h"
#include "reuse/policy.h"
#include "text/sampler.h"

namespace tessera {

struct PassageText {
  std::string title;
  std::string text;
};

struct Request {
  std::vector<PassageText> passages;  // in the order in which they stand in the prompt
  std::string question;
  std::optional<std::string> system;  // another system message than the store's
  std::string policy = std::string(kDefaultPolicy);
  PolicyOptions policy_options;
  AnchorKind anchor = AnchorKind::kLeadin;
  int32_t max_tokens = 64;
  SamplerOptions sampler;
  std::vector<std::string> stop;
};

}  // namespace tessera
