#pragma once
// How the measurements of `tessera bench` are shown.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "bench/bench.h"
#include "tessera/command.h"

namespace tessera {

// A table for people; under --json one object with machine, commit, the seeds of what was drawn at
// random and, where it is not null, `run`: what was run.
void print_bench_results(const Session& session, std::span<const BenchResult> results,
                         std::span<const uint64_t> seeds = {}, const nlohmann::json& run = {});

}  // namespace tessera
