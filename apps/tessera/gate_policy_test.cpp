#include "tessera/gate_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "catalog/catalog.h"
#include "eval/gate.h"
#include "tessera/shipped_gates.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::HasSubstr;

GateRecord passed_gate() {
  GateRecord out;
  out.version = kGateVersion;
  out.passed = true;
  out.date = "2025-01-31";
  out.policy = out.tried = "query_aware";
  out.ratio = 0.3;
  out.anchor = "leadin";
  out.loss = {.kl = 0.04, .kl_low = 0.02, .kl_high = 0.06, .top1 = 0.95, .n = 12};
  return out;
}

ChosenPolicy choose(const std::optional<GateRecord>& gate, const PolicyWish& wish,
                    const ModelProfile& profile = {}) {
  return choose_policy(profile, gate, wish);
}

// Why the wish fell back to prefix; "": it did not.
std::string why(const std::optional<GateRecord>& gate, const PolicyWish& wish) {
  const ChosenPolicy chosen = choose(gate, wish);
  EXPECT_EQ(chosen.fallback.has_value(), chosen.policy == kPrefixPolicy && wish.policy != "prefix");
  return chosen.fallback ? chosen.fallback->why : "";
}

PolicyWish wish(const std::string& policy, std::optional<double> ratio = {}) {
  PolicyWish out;
  out.policy = policy;
  if (ratio) out.options.recompute_ratio = *ratio;
  out.given.ratio = ratio.has_value();
  return out;
}

TEST(ChoosePolicy, PassedModelRunsTheGatesPolicyAtItsRatioAtLeast) {
  const ChosenPolicy chosen = choose(passed_gate(), wish("auto"));

  EXPECT_EQ(chosen.policy, "query_aware");
  EXPECT_EQ(chosen.options.recompute_ratio, 0.3);
  EXPECT_FALSE(chosen.fallback);
  EXPECT_EQ(choose(passed_gate(), wish("auto", 0.5)).options.recompute_ratio, 0.5);
}

TEST(ChoosePolicy, TunedRatioBelowTheGatesIsRaised) {
  ModelProfile profile;
  profile.ratios["query_aware"] = 0.05;
  EXPECT_EQ(choose(passed_gate(), wish("auto"), profile).options.recompute_ratio, 0.3);

  profile.ratios["query_aware"] = 0.4;
  EXPECT_EQ(choose(passed_gate(), wish("auto"), profile).options.recompute_ratio, 0.4);
}

TEST(ChoosePolicy, WhatTheGateHasNotPassedFallsBackAndSaysWhy) {
  GateRecord failed = passed_gate(), old = passed_gate();
  failed.passed = false;
  failed.policy = kPrefixPolicy;
  old.version = kGateVersion - 1;
  PolicyWish bare = wish("auto"), windowed = wish("auto");
  bare.anchor = AnchorKind::kBare;
  windowed.options.window = 3;

  EXPECT_THAT(why({}, wish("auto")), HasSubstr("no gate has passed this model"));
  EXPECT_THAT(why(failed, wish("auto")), HasSubstr("failed this model under query_aware"));
  EXPECT_THAT(why(old, wish("auto")), HasSubstr("checks have changed"));
  EXPECT_THAT(why(passed_gate(), wish("epic")), HasSubstr("says nothing of epic"));
  EXPECT_THAT(why(passed_gate(), wish("query_aware", 0.15)), HasSubstr("from 0.3 on, not 0.15"));
  EXPECT_THAT(why(passed_gate(), bare), HasSubstr("anchor leadin, not bare"));
  EXPECT_THAT(why(passed_gate(), windowed), HasSubstr("built-in options"));
  EXPECT_EQ(why(passed_gate(), wish("query_aware", 0.3)), "");
}

TEST(ChoosePolicy, PoliciesThatGiveWhatFullPrefillGivesNeedNoGate) {
  EXPECT_EQ(choose({}, wish("full")).policy, "full");
  EXPECT_EQ(why({}, wish("full")), "");
  EXPECT_EQ(why({}, wish("prefix")), "");
}

TEST(ChoosePolicy, ForceRunsTheWishAndIsRecordedOnlyWhereItWasNeeded) {
  PolicyWish forced = wish("epic", 0.1);
  forced.is_forced = true;
  json out;

  add_choice(choose({}, forced), out);

  EXPECT_EQ(choose({}, forced).policy, "epic");
  EXPECT_EQ(out, json({{"forced", true}}));
  EXPECT_THAT(note_of(choose({}, forced)), HasSubstr("forced: answered under epic"));
  forced = wish("auto");
  forced.is_forced = true;
  EXPECT_EQ(choose(passed_gate(), forced).forced, "");
}

TEST(ChoosePolicy, ComparisonsAskNoGate) {
  PolicyWish compared = wish("reuse");
  compared.is_measured = true;

  EXPECT_EQ(choose({}, compared).policy, "reuse");
}

TEST(ChoosePolicy, FallbackIsSaidInTextAndJson) {
  const ChosenPolicy chosen = choose({}, wish("auto"));
  json out;

  add_choice(chosen, out);

  EXPECT_EQ(out["fallback"]["wanted"], "query_aware");
  EXPECT_THAT(out["fallback"]["why"], HasSubstr("tessera gate"));
  EXPECT_THAT(note_of(chosen), HasSubstr("fallback: answered under prefix, not query_aware"));
}

TEST(GateRecord, IsReadAsItWasWritten) {
  GateRecord record = passed_gate();
  record.max_kl = 0.1;
  record.min_top1 = 0.9;
  record.data_digest = "ff";
  record.program = "1.2.3 abc";
  record.checks = {{"moved_k", 0.0004, 0.005, true}, {"nats", 7, 4.5, false}};
  GateRecord unmeasured = record;
  unmeasured.loss.reset();

  for (const GateRecord& wanted : {record, unmeasured}) {
    const json written = to_json(wanted);
    EXPECT_EQ(gate_from(Field(written, "gate")), wanted);
  }
}

TEST(ShippedGates, EveryModelOfTheCatalogueHasPassed) {
  for (const CatalogEntry& model : catalog()) {
    const std::optional<GateRecord> gate = shipped_gate(model.sha256);
    EXPECT_TRUE(gate) << model.name;
    EXPECT_TRUE(gate.value_or(GateRecord{}).passed) << model.name;
    EXPECT_EQ(gate.value_or(GateRecord{}).version, kGateVersion) << model.name;
    EXPECT_EQ(choose(gate, wish("auto")).fallback.has_value(), false) << model.name;
  }
}

TEST(GateOf, ProfileOnDiskBeatsTheOneThatIsShipped) {
  ModelProfile profile;
  EXPECT_FALSE(gate_of("0123", profile));
  profile.gate = passed_gate();
  profile.gate->passed = false;

  EXPECT_EQ(gate_of("0123", profile), profile.gate);
}

}  // namespace
}  // namespace tessera
