#include "eval/measurement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

using nlohmann::json;

Account account_from(const json& a) {
  Account out;
  a.at("exact").get_to(out.exact);
  a.at("soft").get_to(out.soft);
  a.at("independent").get_to(out.independent);
  a.at("recomputed").get_to(out.recomputed);
  a.at("fresh").get_to(out.fresh);
  return out;
}

// Fields that only some rows have.
struct OptionalField {
  const char* name;
  std::optional<double> Measurement::*member;
};
constexpr std::array kOptionalFields = {
    OptionalField{"rouge_l", &Measurement::rouge_l},
    OptionalField{"accuracy", &Measurement::accuracy},
};

Measurement read_fields(const json& record) {
  Measurement out;
  record.at("task").get_to(out.key.task);
  record.at("id").get_to(out.key.id);
  record.at("anchor").get_to(out.key.anchor);
  record.at("policy").get_to(out.key.policy);
  record.at("ratio").get_to(out.key.ratio);
  record.at("sample").get_to(out.inputs.sample);
  record.at("scorer").get_to(out.inputs.scorer);
  record.at("answer").get_to(out.answer);
  record.at("kl").get_to(out.kl);
  record.at("top1").get_to(out.top1);
  record.at("positions").get_to(out.n_positions);
  record.at("gold_nll").get_to(out.gold_nll);
  record.at("f1").get_to(out.f1);
  record.at("exact_match").get_to(out.exact_match);
  record.at("full_f1").get_to(out.full_f1);
  record.at("full_gold_nll").get_to(out.full_gold_nll);
  record.at("ttft_ms").get_to(out.ttft_ms);
  record.at("full_ttft_ms").get_to(out.full_ttft_ms);
  record.at("probe_rows").get_to(out.probe_rows);
  record.at("scorer_rows").get_to(out.scorer_rows);
  out.account = account_from(record.at("account"));
  for (const OptionalField& field : kOptionalFields) {
    if (record.contains(field.name)) out.*field.member = record.at(field.name).get<double>();
  }
  return out;
}

}  // namespace

bool is_sound(const Measurement& o) {
  const std::array numbers = {o.key.ratio,  o.kl,          o.top1,    o.gold_nll,
                              o.f1,         o.exact_match, o.ttft_ms, o.full_ttft_ms,
                              o.probe_rows, o.scorer_rows, o.full_f1, o.full_gold_nll};
  const auto is_finite = [](double x) { return std::isfinite(x); };
  const Account& a = o.account;
  const std::array parts = {a.exact, a.soft, a.independent, a.recomputed, a.fresh};
  const int64_t total = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const auto has_finite = [&](const OptionalField& field) {
    return is_finite((o.*field.member).value_or(0));
  };
  return std::ranges::all_of(numbers, is_finite) &&
         std::ranges::all_of(kOptionalFields, has_finite) && o.ttft_ms > 0 && o.full_ttft_ms > 0 &&
         std::ranges::all_of(parts, [](int32_t n) { return n >= 0; }) && total > 0 &&
         total <= std::numeric_limits<int32_t>::max();
}

nlohmann::ordered_json record_of(const Measurement& o) {
  const Account& a = o.account;
  nlohmann::ordered_json out = {{"kind", "row"},
                                {"task", o.key.task},
                                {"id", o.key.id},
                                {"anchor", o.key.anchor},
                                {"policy", o.key.policy},
                                {"ratio", o.key.ratio},
                                {"sample", o.inputs.sample},
                                {"scorer", o.inputs.scorer},
                                {"answer", o.answer},
                                {"kl", o.kl},
                                {"top1", o.top1},
                                {"positions", o.n_positions},
                                {"gold_nll", o.gold_nll},
                                {"f1", o.f1},
                                {"exact_match", o.exact_match},
                                {"full_f1", o.full_f1},
                                {"full_gold_nll", o.full_gold_nll},
                                {"ttft_ms", o.ttft_ms},
                                {"full_ttft_ms", o.full_ttft_ms},
                                {"probe_rows", o.probe_rows},
                                {"scorer_rows", o.scorer_rows},
                                {"account",
                                 {{"exact", a.exact},
                                  {"soft", a.soft},
                                  {"independent", a.independent},
                                  {"recomputed", a.recomputed},
                                  {"fresh", a.fresh}}}};
  for (const OptionalField& field : kOptionalFields) {
    if (const std::optional<double>& value = o.*field.member) out[field.name] = *value;
  }
  return out;
}

std::optional<Measurement> measurement_of(const json& record) {
  try {
    Measurement out = read_fields(record);
    return is_sound(out) ? std::optional(std::move(out)) : std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace tessera
