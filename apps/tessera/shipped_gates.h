#pragma once
// Verdicts of 'tessera gate' that come with the program: data/gates.json, where each stands under
// the digest of its model as 'tessera gate --json' has printed it.
#include <optional>
#include <string>

#include "tessera/gate_record.h"

namespace tessera {

// By the content digest of the model's file; nothing for other files.
std::optional<GateRecord> shipped_gate(const std::string& model_digest);

}  // namespace tessera
