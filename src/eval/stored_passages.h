#pragma once
// What indexing makes of the passages of a question, so that a measurement finds them stored.
// Uses the engine and the scorer that it is given; not thread-safe.
#include <stop_token>
#include <string>

#include "engine/engine.h"

namespace tessera {

// Makes the KV of the preamble and of the passages behind the request's anchor, and reads it once:
// without that whoever comes first would pay for the disk. Gives the prompt with all that was
// loaded, prefilled under the policy `reuse`. `id` names the question in errors. Throws Error(kIo)
// when the KV of a passage cannot be kept, and what the engine throws.
Prefilled store_passages(Engine& engine, Request request, const std::string& id,
                         const std::stop_token& stop);

// The same for what the scorer keeps of them for `policy`; nothing for one that reads no scorer.
void store_for_scorer(Scorer& scorer, const Request& request, const std::string& id,
                      const ReusePolicy& policy, const std::stop_token& stop);

}  // namespace tessera
