#pragma once
// What was measured of one question under one policy: a row of a run's file. Plain values.
#include <compare>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kv/account.h"

namespace tessera {

// Full prefill reads no chunk: it has one row per question, with this anchor and ratio 1.
inline constexpr const char* kNoAnchor = "none";
inline constexpr const char* kFullPolicy = "full";

struct RowKey {
  std::string task;
  std::string id;  // of the sample
  std::string anchor;
  std::string policy;
  double ratio = 0;
  auto operator<=>(const RowKey&) const = default;
};

inline RowKey full_key(const std::string& task, const std::string& id) {
  return {task, id, kNoAnchor, kFullPolicy, 1.0};
}

// What a row was measured on, beside what all rows of a run share.
struct RowInputs {
  std::string sample;  // sample_digest
  std::string scorer;  // digest of the small model; empty for a policy that reads none
  bool operator==(const RowInputs&) const = default;
};

struct Measurement {
  RowKey key;
  RowInputs inputs;
  std::string answer;
  double kl = 0;            // mean KL(full || policy) along full's answer, nats
  double top1 = 1;          // share of its positions with the same likeliest token
  int32_t n_positions = 0;  // of kl and top1
  double gold_nll = 0;      // of the first gold answer, nats a token
  double f1 = 0;            // of the answer, as of a short one
  double exact_match = 0;   // 0 or 1
  // Of the answer as its task scores it: both empty for a short answer.
  std::optional<double> rouge_l;
  std::optional<double> accuracy;         // 0 or 1: the right option's letter is the likeliest
  double full_f1 = 0, full_gold_nll = 0;  // full prefill's on the same question
  double ttft_ms = 0;
  double full_ttft_ms = 0;
  double probe_rows = 0, scorer_rows = 0;  // as in Prefilled
  Account account;
};

// Whether it can have been measured: every number is finite, times and tokens are positive.
bool is_sound(const Measurement& measurement);

// `{"kind": "row", ...}`, one line of a run's file.
nlohmann::ordered_json record_of(const Measurement& measurement);
// Nothing when a field that every row has is missing, when one is of another type, or when it is
// not sound.
std::optional<Measurement> measurement_of(const nlohmann::json& record);

}  // namespace tessera
