#pragma once
// The verdict of 'tessera gate' on a model, as a profile keeps it. Plain values.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/json_field.h"

namespace tessera {

// What 'tessera gate' found. docs/GATE.md names the checks.
struct GateRecord {
  struct Check {
    std::string name;
    double value = 0;  // 0 where what was measured is no number
    double bound = 0;
    bool passed = false;
    bool operator==(const Check&) const = default;
  };
  // Against full prefill, means over questions.
  struct Loss {
    double kl = 0, kl_low = 0, kl_high = 0;  // nats, with its 95% interval
    double top1 = 0;
    int32_t n = 0;  // questions
    bool operator==(const Loss&) const = default;
  };

  int32_t version = 0;  // of the checks, kGateVersion
  bool passed = false;
  std::string date;          // of UTC, as in 2025-01-31
  std::string policy;        // to answer under: "prefix" where nothing passed
  double ratio = 0;          // at least so much of what is loaded is recomputed
  std::string anchor;        // of the chunks that it was measured on
  std::string tried;         // the policy that was measured
  std::optional<Loss> loss;  // at the last ratio that was measured; empty: none was
  double max_kl = 0, min_top1 = 0;
  std::string data_digest;  // over the questions, hex
  std::string program;      // version and commit
  std::vector<Check> checks;
  bool operator==(const GateRecord&) const = default;
};

nlohmann::json to_json(const GateRecord& gate);
// What to_json() gave. Throws Unusable naming the field for anything else.
GateRecord gate_from(const Field& field);

}  // namespace tessera
