#pragma once
// What 'ask' tells people about an answer. Pure; thread-safe.
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/request.h"

namespace tessera {

// Where each token of a prompt came from: "508 prompt tokens: 24 exact, 338 soft, 73 independent,
// 43 recomputed, 30 new"; parts without any are left out.
std::string account_text(const Account& account);

// The chunks of an answer: one for each passage that was read, in their order.
std::vector<SegmentReport> chunks_of(const Answer& answer);

// How a chunk was found: "soft, 73 tokens, 6 of them recomputed", "computed, 80 tokens".
std::string reading_text(const SegmentReport& chunk);

// What stands in comparisons for a request: its policy, "POLICY+adaptive" over adaptive context.
std::string configuration_name(const Request& request);

// How many passages adaptive context read, how sure it left the model, and what that cost.
// `request`: the one that was answered.
std::string adaptive_text(const Request& request, const AdaptiveReport& report);

}  // namespace tessera
