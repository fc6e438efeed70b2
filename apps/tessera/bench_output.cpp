#include "tessera/bench_output.h"

#include <fmt/format.h>

#include "model/model.h"
#include "tessera/build_info.h"
#include "tessera/format.h"

namespace tessera {

using nlohmann::json;

void print_bench_results(const Session& session, std::span<const BenchResult> results,
                         std::span<const uint64_t> seeds, const json& run) {
  if (!session.json()) {
    Table table({{"measurement"},
                 {"value", Table::Align::kRight},
                 {"unit"},
                 {"target", Table::Align::kRight},
                 {""}});
    for (const BenchResult& r : results) {
      table.add_row({r.name, fmt::format("{:.4g}", r.value), r.unit,
                     r.target ? fmt::format("{} {:.4g}", r.at_most ? "<=" : ">=", *r.target) : "",
                     r.target ? (r.ok() ? "ok" : "MISSED") : ""});
    }
    return session.print(table.text());
  }
  const BuildInfo build = build_info();
  json rows = json::array();
  for (const BenchResult& r : results) {
    rows.push_back({{"name", r.name},
                    {"value", r.value},
                    {"unit", r.unit},
                    {"target", r.target ? json(*r.target) : json()},
                    {"ok", r.ok()}});
  }
  json drawn = json::array();
  for (const uint64_t seed : seeds) drawn.push_back(seed);
  json out = {{"machine",
               {{"cpu", build.cpu}, {"flags", build.cpu_flags}, {"threads", available_threads()}}},
              {"commit", build.commit},
              {"ggml", build.ggml},
              {"seeds", drawn},
              {"results", rows}};
  if (!run.is_null()) out["run"] = run;
  session.print_json(out);
}

}  // namespace tessera
