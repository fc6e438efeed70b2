#pragma once
// How `tessera bench load` is shown. Pure; thread-safe.
#include <nlohmann/json.hpp>
#include <string>

#include "bench/load.h"

namespace tessera {

// Tables of at most 120 columns, and a line on what each column means.
std::string load_text(const LoadReport& report, const LoadBenchOptions& options);

// All that is known: of each request under each configuration, of each rate, and of the check.
nlohmann::json load_json(const LoadReport& report, const LoadBenchOptions& options);

}  // namespace tessera
