#include "tessera/gate_record.h"

#include <limits>
#include <utility>

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kPassVerdict = "pass";

std::optional<GateRecord::Loss> loss_from(const Field& field) {
  if (field.is_null()) return std::nullopt;
  return GateRecord::Loss{.kl = field.at("kl").number_from_0(),
                          .kl_low = field.at("kl_low").number_from_0(),
                          .kl_high = field.at("kl_high").number_from_0(),
                          .top1 = field.at("top1").share(),
                          .n = field.at("n").integer(0, std::numeric_limits<int32_t>::max())};
}

}  // namespace

GateRecord gate_from(const Field& field) {
  GateRecord out;
  out.version = field.at("gate_version").integer(0, std::numeric_limits<int32_t>::max());
  out.passed = field.at("verdict").text() == kPassVerdict;
  out.date = field.at("date").text();
  out.policy = field.at("policy").text();
  out.ratio = field.at("ratio").share();
  out.anchor = field.at("anchor").text();
  out.tried = field.at("tried").text();
  out.loss = loss_from(field.at("loss"));
  out.max_kl = field.at("max_kl").number_from_0();
  out.min_top1 = field.at("min_top1").share();
  out.data_digest = field.at("data_digest").text();
  out.program = field.at("program").text();
  for (const Field& check : field.at("checks").items()) {
    out.checks.push_back({check.at("name").text(), check.at("value").number(),
                          check.at("bound").number(), check.at("passed").flag()});
  }
  return out;
}

json to_json(const GateRecord& gate) {
  json checks = json::array(), loss;
  for (const GateRecord::Check& c : gate.checks) {
    checks.push_back(
        {{"name", c.name}, {"value", c.value}, {"bound", c.bound}, {"passed", c.passed}});
  }
  if (const auto& l = gate.loss) {
    loss = {{"kl", l->kl},
            {"kl_low", l->kl_low},
            {"kl_high", l->kl_high},
            {"top1", l->top1},
            {"n", l->n}};
  }
  return {{"gate_version", gate.version},
          {"verdict", gate.passed ? kPassVerdict : "fail"},
          {"date", gate.date},
          {"policy", gate.policy},
          {"ratio", gate.ratio},
          {"anchor", gate.anchor},
          {"tried", gate.tried},
          {"loss", std::move(loss)},
          {"max_kl", gate.max_kl},
          {"min_top1", gate.min_top1},
          {"data_digest", gate.data_digest},
          {"program", gate.program},
          {"checks", std::move(checks)}};
}

}  // namespace tessera
