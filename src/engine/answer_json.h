#pragma once
// What an answer reports, as JSON: for `--json`, and for records of what was measured. The fields
// are those of docs/JSON.md. Thread-safe.
#include <nlohmann/json.hpp>

#include "engine/compare.h"
#include "engine/engine.h"

namespace tessera {

nlohmann::json to_json(const Account& account);
nlohmann::json to_json(const Timings& timings);
nlohmann::json to_json(const SegmentReport& segment);
nlohmann::json to_json(const AdaptiveReport& report);
nlohmann::json to_json(const Answer& answer);
nlohmann::json to_json(const Comparison& comparison);  // without full's answer

}  // namespace tessera
