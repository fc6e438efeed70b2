#pragma once
// Interleaved timing: every round runs each variant once, so that a slow minute of the machine hits
// all alike.
#include <functional>
#include <string>
#include <vector>

#include "bench/bench.h"

namespace tessera {

struct Contestant {
  std::string name;
  std::function<void()> run;
  std::vector<double> ms;  // one per round
};

// One uncounted round first. The order turns around in every other round.
void run_interleaved(std::vector<Contestant>& variants, const BenchOptions& options);

// Median over rounds of a.ms / b.ms, pair by pair.
double median_ratio(const Contestant& a, const Contestant& b);

}  // namespace tessera
