#include "tessera/gate_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "eval/gate.h"
#include "tessera/format.h"
#include "tessera/policy_options.h"
#include "tessera/shipped_gates.h"

namespace tessera {
namespace {

using nlohmann::json;

// What a user gave as a decimal and what a file holds may differ in the last bit.
constexpr double kSameRatio = 1e-9;

// The verdict where it lets something pass; null: it is of older checks, or none.
const GateRecord* standing(const std::optional<GateRecord>& gate) {
  return gate && gate->passed && gate->version == kGateVersion ? &*gate : nullptr;
}

// The options that the gate leaves at their built-in values.
json other_options(PolicyOptions options, const std::string& policy) {
  if (policy != "adacache") options.soft_ratio = PolicyOptions{}.soft_ratio;
  return policy_options_json(options);
}

// Why `policy` is not what the gate has passed; empty: it is.
std::string objection(const std::optional<GateRecord>& gate, const std::string& policy,
                      const PolicyOptions& options, AnchorKind anchor) {
  if (!gate) return "no gate has passed this model - run 'tessera gate' on it";
  if (gate->version != kGateVersion)
    return "the gate's checks have changed since it saw this model - run 'tessera gate' again";
  if (!gate->passed)
    return fmt::format("the gate has failed this model under {} on {}", gate->tried, gate->date);
  if (policy != gate->policy) {
    return fmt::format(
        "the gate has passed {} for this model, which says nothing of {} - leave out "
        "--policy, or run 'tessera gate --policy {}'",
        gate->policy, policy, policy);
  }
  if (anchor_name(anchor) != gate->anchor) {
    return fmt::format(
        "the gate has passed chunks made behind the anchor {}, not {} - run "
        "'tessera gate --anchor {}'",
        gate->anchor, anchor_name(anchor), anchor_name(anchor));
  }
  if (reads_ratio(policy, options) && options.recompute_ratio < gate->ratio - kSameRatio) {
    return fmt::format(
        "the gate has passed ratios from {:.4g} on, not {:.4g} - leave out --ratio, "
        "or run 'tessera gate --ratio {:.4g}'",
        gate->ratio, options.recompute_ratio, options.recompute_ratio);
  }
  if (other_options(options, policy) != other_options({}, policy))
    return fmt::format("the gate has passed {} with its built-in options alone", policy);
  return {};
}

bool is_exact(const std::string& policy) {
  return std::ranges::any_of(policies(),
                             [&](const PolicyInfo& p) { return p.name == policy && p.is_exact; });
}

}  // namespace

std::optional<GateRecord> gate_of(const std::string& model_digest, const ModelProfile& profile) {
  return profile.gate ? profile.gate : shipped_gate(model_digest);
}

std::string verdict_text(const std::optional<GateRecord>& gate) {
  if (!gate) return "gate: not run on this model - 'tessera gate' does";
  const std::string verdict =
      gate->passed
          ? fmt::format("pass: answers under {} from ratio {:.4g} on", gate->policy, gate->ratio)
          : fmt::format("FAIL: answers under {}", gate->policy);
  std::string out = fmt::format("gate, {}: {}", gate->date, verdict);
  if (const auto& loss = gate->loss) {
    out += fmt::format(" ({} at {:.4g}: mean KL {:.3f} [{:.3f}, {:.3f}], top-1 {:.0f}%, {})",
                       gate->tried, gate->ratio, loss->kl, loss->kl_low, loss->kl_high,
                       100 * loss->top1, counted(static_cast<uint64_t>(loss->n), "question"));
  }
  return out;
}

ChosenPolicy choose_policy(const ModelProfile& profile, const std::optional<GateRecord>& gate,
                           const PolicyWish& wish) {
  ChosenPolicy out = {wish.policy, wish.options, wish.given, {}, {}};
  const GateRecord* passed = standing(gate);
  if (wish.policy == kAutoPolicy)
    out.policy = passed != nullptr ? passed->policy : std::string(kDefaultPolicy);
  apply(profile, out.policy, wish.given, out.options);
  const bool takes_ratio = passed != nullptr && out.policy == passed->policy && !wish.given.ratio &&
                           reads_ratio(out.policy, out.options);
  if (takes_ratio && out.options.recompute_ratio < passed->ratio) {
    out.options.recompute_ratio = passed->ratio;
    out.given.ratio = true;
  }
  if (wish.is_measured || is_exact(out.policy)) return out;
  std::string why = objection(gate, out.policy, out.options, wish.anchor);
  if (why.empty()) return out;
  if (wish.is_forced) {
    out.forced = std::move(why);
    return out;
  }
  return {kPrefixPolicy, wish.options, wish.given, ChosenPolicy::Fallback{out.policy, why}, {}};
}

std::string note_of(const ChosenPolicy& chosen) {
  if (chosen.fallback) {
    return fmt::format("fallback: answered under {}, not {} - {}; --force runs {} as it is",
                       chosen.policy, chosen.fallback->wanted, chosen.fallback->why,
                       chosen.fallback->wanted);
  }
  if (!chosen.forced.empty())
    return fmt::format("forced: answered under {} - {}", chosen.policy, chosen.forced);
  return {};
}

void add_choice(const ChosenPolicy& chosen, json& out) {
  if (chosen.fallback)
    out["fallback"] = {{"wanted", chosen.fallback->wanted}, {"why", chosen.fallback->why}};
  if (!chosen.forced.empty()) out["forced"] = true;
}

}  // namespace tessera
