#include "bench/measure.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "eval/metrics.h"

namespace tessera {

void run_interleaved(std::vector<Contestant>& variants, const BenchOptions& options) {
  for (int32_t round = 0; round <= options.rounds; ++round) {
    if (options.note)
      options.note(fmt::format("{}: round {} of {}", options.model_name, round, options.rounds));
    for (size_t i = 0; i < variants.size(); ++i) {
      if (options.stop.stop_requested())
        throw Error(ErrorCode::kCancelled, "stopped while measuring");
      Contestant& v = variants[round % 2 == 0 ? i : variants.size() - 1 - i];
      const Stopwatch watch;
      v.run();
      if (round > 0) v.ms.push_back(watch.ms());
    }
  }
}

double median_ratio(const Contestant& a, const Contestant& b) {
  CHECK(a.ms.size() == b.ms.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < a.ms.size(); ++i) ratios.push_back(a.ms[i] / b.ms[i]);
  return median(std::move(ratios));
}

}  // namespace tessera
