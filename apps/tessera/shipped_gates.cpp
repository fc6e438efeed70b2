#include "tessera/shipped_gates.h"

#include <nlohmann/json.hpp>

#include "gates_data.h"

namespace tessera {

std::optional<GateRecord> shipped_gate(const std::string& model_digest) {
  const nlohmann::json all = nlohmann::json::parse(kShippedGates);
  const auto found = all.find(model_digest);
  if (found == all.end()) return std::nullopt;
  return gate_from(Field(*found, "gate"));
}

}  // namespace tessera
