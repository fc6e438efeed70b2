#pragma once
// Under which policy a question is answered: the wanted one where 'tessera gate' has passed it for
// the model, else `prefix`, which gives what full prefill gives. docs/GATE.md.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kv/chunk.h"
#include "reuse/policy.h"
#include "tessera/gate_record.h"
#include "tessera/model_profile.h"

namespace tessera {

inline constexpr const char* kAutoPolicy = "auto";
inline constexpr const char* kPrefixPolicy = "prefix";

// The profile's verdict, else the one that the program brings for models of its catalogue.
std::optional<GateRecord> gate_of(const std::string& model_digest, const ModelProfile& profile);

// The verdict in a line for people; also of none.
std::string verdict_text(const std::optional<GateRecord>& gate);

struct PolicyWish {
  std::string policy = kAutoPolicy;  // or a known one
  PolicyOptions options;             // as given, the built-in values where nothing was
  GivenOptions given;
  AnchorKind anchor = AnchorKind::kLeadin;
  bool is_forced = false;    // run it whatever the gate says
  bool is_measured = false;  // its distance to full prefill is shown beside it: no gate is asked
};

struct ChosenPolicy {
  struct Fallback {
    std::string wanted;
    std::string why;  // with what can be done about it
  };

  std::string policy;
  PolicyOptions options;  // with what was tuned, and at least the gate's ratio where none was given
  GivenOptions given;     // with the ratio where it is the gate's
  std::optional<Fallback> fallback;
  std::string forced;  // why the gate would have fallen back; empty: nothing was forced
};

ChosenPolicy choose_policy(const ModelProfile& profile, const std::optional<GateRecord>& gate,
                           const PolicyWish& wish);

// For people; empty: nothing to say.
std::string note_of(const ChosenPolicy& chosen);
// Adds "fallback": {"wanted", "why"}, or "forced": true, where it is so.
void add_choice(const ChosenPolicy& chosen, nlohmann::json& out);

}  // namespace tessera
