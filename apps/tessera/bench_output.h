#pragma once
// How the measurements of `tessera bench` are shown.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "bench/bench.h"
#include "bench/trace_figures.h"
#include "tessera/command.h"

namespace tessera {

// For machines: one object with machine, commit, the seeds of what was drawn at random and, where
// it is not null, `run`: what was run.
nlohmann::json bench_json(std::span<const BenchResult> results, std::span<const uint64_t> seeds,
                          const nlohmann::json& run);

// A table for people; under --json that object.
void print_bench_results(const Session& session, std::span<const BenchResult> results,
                         std::span<const uint64_t> seeds = {}, const nlohmann::json& run = {});

// A trace for people: tables of at most 120 columns, and lines on what no table holds. Pure.
std::string trace_text(const TraceReport& report);

}  // namespace tessera
