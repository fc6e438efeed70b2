#pragma once
// What the tests of reports share: rows with the numbers that matter to them.
#include <initializer_list>
#include <string>

#include "eval/measurement.h"
#include "eval/run_file.h"

namespace tessera::report_testing {

// A policy that computes half of 100 tokens, `speed` times as fast as full prefill's 40 ms.
inline Measurement row(const std::string& id, const std::string& policy, double ratio, double kl,
                       double speed = 4) {
  Measurement o;
  o.key = {"squad", id, "leadin", policy, ratio};
  o.inputs.sample = "digest of " + id;
  o.answer = "answer of " + policy;
  o.kl = kl;
  o.full_ttft_ms = 40;
  o.ttft_ms = 40 / speed;
  o.account = {.independent = 50, .recomputed = 30, .fresh = 20};
  return o;
}

inline Measurement full_row(const std::string& id) {
  Measurement o = row(id, kFullPolicy, 1, 0, 1);
  o.key = full_key("squad", id);
  o.account = {.fresh = 100};
  return o;
}

inline RunFile run_of(std::initializer_list<Measurement> rows) {
  RunFile out;
  out.name = "run.jsonl";
  out.config = {{"seed", 0}, {"max_tokens", 32}};
  out.sessions = {{{"model", "small"}, {"cpu", "a cpu"}, {"started", "2026-12-01T00:00:00Z"}}};
  for (const Measurement& o : rows) out.rows[o.key] = o;
  return out;
}

}  // namespace tessera::report_testing
