#include "tessera/model_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kDigest = "0123abcd";

// The data folder and the log are their own while a test runs.
class ModelProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("XDG_DATA_HOME")) before_ = value;
    ::setenv("XDG_DATA_HOME", scratch_.path().c_str(), 1);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  void TearDown() override {
    spdlog::set_default_logger(logger_before_);
    if (before_) {
      ::setenv("XDG_DATA_HOME", before_->c_str(), 1);
    } else {
      ::unsetenv("XDG_DATA_HOME");
    }
  }

  static ModelProfile full_profile() {
    ModelProfile out;
    out.sink_layer = 14;
    out.adacache = {.alpha = 0.04, .beta = 0.12};
    out.adaptive = {
        .lambda = 0.25, .kl_scale = 1.5, .threshold = 0.7, .policy = "adacache", .step = 1};
    out.ratios = {{"query_aware", 0.08}};
    out.tuned[kAlphaPart] = {.date = "2025-01-31",
                             .tasks = {"squad", "hotpotqa"},
                             .data_digest = "ff00",
                             .metric = "kl",
                             .bound = 0.1,
                             .loss = 0.09,
                             .loss_in_sample = 0.08,
                             .n = 40};
    out.tuned[kAdaptivePart] = out.tuned[kAlphaPart];
    out.tuned[kAdaptivePart].loss.reset();
    out.unmet = {{"cacheblend", 0.01}};
    out.gate =
        GateRecord{.version = 1,
                   .passed = true,
                   .date = "2025-01-31",
                   .policy = "query_aware",
                   .ratio = 0.15,
                   .anchor = "leadin",
                   .tried = "query_aware",
                   .loss = {{.kl = 0.04, .kl_low = 0.02, .kl_high = 0.06, .top1 = 1, .n = 12}},
                   .max_kl = 0.1,
                   .min_top1 = 0.9,
                   .data_digest = "ff00",
                   .program = "0.1.0 abc",
                   .checks = {{"moved_k", 0.0005, 0.005, true}}};
    return out;
  }

  // What is said of one policy that runs under a profile; `adaptive`: over adaptive context.
  static std::vector<std::string> notes_on(const ModelProfile& profile, const std::string& policy,
                                           const GivenOptions& given = {},
                                           const std::optional<AdaptiveContext>& adaptive = {}) {
    PolicySetting setting = {policy, {}, adaptive.has_value()};
    apply(profile, policy, given, setting.options);
    AdaptiveContext context = adaptive.value_or(AdaptiveContext{});
    apply(profile, given, context);
    return profile_notes(profile, given, {&setting, 1}, context);
  }
  // What is said of several, all over adaptive context.
  static std::vector<std::string> notes_on_all(const ModelProfile& profile,
                                               const std::vector<std::string>& policies,
                                               const GivenOptions& given = {}) {
    std::vector<PolicySetting> settings;
    for (const std::string& policy : policies) {
      PolicySetting& setting = settings.emplace_back();
      setting.policy = policy;
      setting.is_adaptive = true;
      apply(profile, policy, given, setting.options);
    }
    AdaptiveContext context;
    apply(profile, given, context);
    return profile_notes(profile, given, settings, context);
  }

  static json read_json() { return json::parse(std::ifstream(profile_file(kDigest))); }
  static std::string read_text(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static fs::path beside(const char* suffix) { return profile_file(kDigest).string() + suffix; }
  // What is logged while the profile is read.
  std::string warning(int32_t n_layers = kMostLayers) {
    log_.str("");
    read_profile(kDigest, n_layers);
    return log_.str();
  }
  static void write_json(const json& value) { write_text(value.dump()); }
  static void write_text(const std::string& text) {
    fs::create_directories(profile_file(kDigest).parent_path());
    std::ofstream(profile_file(kDigest)) << text;
  }

  ScratchFolder scratch_{testing::TempDir()};
  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> logger_before_ = spdlog::default_logger();
  std::optional<std::string> before_;
};

TEST_F(ModelProfileTest, ReadsBackWhatWasWritten) {
  write_profile(kDigest, full_profile());

  EXPECT_EQ(read_profile(kDigest), full_profile());
  EXPECT_EQ(read_profile("another"), ModelProfile{});
}

TEST_F(ModelProfileTest, EmptyOneReadsBackEmpty) {
  write_profile(kDigest, {});

  EXPECT_EQ(read_profile(kDigest), ModelProfile{});
}

TEST_F(ModelProfileTest, UnknownFieldsArePassedOver) {
  write_profile(kDigest, full_profile());
  json record = read_json();
  record["later"] = {1, 2};

  write_json(record);

  EXPECT_EQ(read_profile(kDigest), full_profile());
}

TEST_F(ModelProfileTest, BadFileCountsAsNone) {
  write_profile(kDigest, full_profile());
  const json good = read_json();
  const auto changed = [&good](const char* at, const json& value) {
    json out = good;
    out[json::json_pointer(at)] = value;
    return out.dump();
  };
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"), changed("/format", 99),
        changed("/model_digest", "another"), changed("/sink_layer", -1),
        changed("/sink_layer", "14"), changed("/adacache/alpha", 0.5),
        changed("/adacache/beta", 1.5), changed("/adaptive/kl_scale", 0),
        changed("/adaptive/lambda", nullptr), changed("/adaptive/step", "1"),
        changed("/adaptive/step", 0), changed("/unmet/cacheblend", "x"),
        changed("/unmet/cacheblend", -1), changed("/ratios/query_aware", -0.1),
        changed("/tuned/adacache.alpha/n", "40")}) {
    write_text(text);
    EXPECT_EQ(read_profile(kDigest), ModelProfile{}) << text;
  }
}

TEST_F(ModelProfileTest, BadValueIsNamedWithWhatWasExpected) {
  write_profile(kDigest, full_profile());
  const json good = read_json();
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"/sink_layer",
       {"9007199254740993", "'sink_layer' is 9007199254740993 where a whole number "}},
      {"/sink_layer", {"4294967301", "'sink_layer' is 4294967301 where"}},
      {"/sink_layer", {"65536", "from 0 to 65535 is expected"}},
      {"/sink_layer", {"-1", "'sink_layer' is -1 where"}},
      {"/sink_layer", {"3.7", "'sink_layer' is 3.7 where"}},
      {"/sink_layer", {"1180591620717411303424", "where a whole number from 0 to 65535"}},
      {"/sink_layer", {"null", "'sink_layer' is null where"}},
      {"/adaptive/step", {"0", "'adaptive.step' is 0 where a whole number from 1"}},
      {"/adaptive/step", {"1000000000000", "'adaptive.step' is 1000000000000 where"}},
      {"/adaptive/threshold", {"null", "'adaptive.threshold' is null where a finite number is"}},
      {"/adaptive/kl_scale", {"0", "'adaptive.kl_scale' is 0 where a finite number above 0"}},
      {"/adaptive", {"[1]", "'adaptive' is an array where an object is expected"}},
      {"/adacache/alpha", {"0.5", "'adacache.alpha' is 0.5 where at most beta, 0.12, is expected"}},
      {"/ratios", {"[]", "'ratios' is an array where an object is expected"}},
      {"/ratios/query_aware", {"\"x\"", "'ratios.query_aware' is 'x' where a number from 0 to 1"}},
      {"/tuned/adacache.alpha/bound", {"null", "'tuned.adacache.alpha.bound' is null where"}},
      {"/tuned/adacache.alpha/n", {"2147483648", "'tuned.adacache.alpha.n' is 2147483648 where"}},
      {"/tuned/adacache.alpha/tasks", {"[1]", "'tuned.adacache.alpha.tasks' is 1 where a text"}},
      {"/tuned/adacache.alpha", {"{}", "field 'tuned.adacache.alpha.date' is missing"}},
      {"/unmet", {"3", "'unmet' is 3 where an object is expected"}},
      {"/format", {"\"1\"", "'format' is '1' where"}},
      {"", {"[1]", "the whole is an array where an object is expected"}}};
  for (const auto& [at, wrong] : cases) {
    json record = good;
    record[json::json_pointer(at)] = json::parse(wrong.first);
    write_json(record);
    EXPECT_THAT(warning(), AllOf(HasSubstr(wrong.second), HasSubstr("remove it, or run"),
                                 Not(HasSubstr("json.exception"))));
    EXPECT_EQ(read_profile(kDigest), ModelProfile{}) << at;
  }
  write_text("{\"format\": 1,");
  EXPECT_THAT(warning(), HasSubstr("it is not JSON"));
}

TEST_F(ModelProfileTest, SinkLayerThatTheModelLacksIsLeftOutAlone) {
  write_profile(kDigest, full_profile());
  ModelProfile without = full_profile();
  without.sink_layer.reset();

  EXPECT_EQ(read_profile(kDigest, 15), full_profile());
  EXPECT_EQ(warning(15), "");
  EXPECT_EQ(read_profile(kDigest, 14), without);
  EXPECT_THAT(warning(14), HasSubstr("the model has 14 layers"));
}

TEST_F(ModelProfileTest, FolderInItsPlaceIsSaidAndSetAside) {
  fs::create_directories(profile_file(kDigest) / "mine");

  EXPECT_THAT(warning(), HasSubstr("is not used - it is a folder"));
  write_profile(kDigest, full_profile());

  EXPECT_TRUE(fs::exists(beside(".damaged") / "mine"));
  EXPECT_EQ(read_profile(kDigest), full_profile());
}

TEST_F(ModelProfileTest, WhatCannotBeReadIsKeptBeside) {
  const std::string none = warning();
  for (const char* text : {"{\"sink_layer\": null}", "my notes"}) {
    write_text(text);
    write_profile(kDigest, full_profile());
  }

  EXPECT_EQ(none, "");
  EXPECT_EQ(read_text(beside(".damaged")), "{\"sink_layer\": null}");
  EXPECT_EQ(read_text(beside(".damaged2")), "my notes");
  EXPECT_THAT(log_.str(), HasSubstr("is kept as " + beside(".damaged2").string()));
  EXPECT_EQ(read_profile(kDigest), full_profile());
  write_profile(kDigest, full_profile());
  EXPECT_FALSE(fs::exists(beside(".damaged3"))) << "what can be read is replaced";
}

TEST_F(ModelProfileTest, WhatCouldNotBeReadBackIsNotWritten) {
  write_profile(kDigest, full_profile());
  const std::string before = read_text(profile_file(kDigest));
  const double infinite = std::numeric_limits<double>::infinity();
  const double none = std::numeric_limits<double>::quiet_NaN();
  ModelProfile bound = full_profile(), scale = full_profile(), ratio = full_profile(),
               unmet = full_profile(), loss = full_profile(), step = full_profile();
  bound.tuned[kAlphaPart].bound = infinite;
  ModelProfile::Adaptive adaptive = full_profile().adaptive.value_or(ModelProfile::Adaptive{});
  adaptive.kl_scale = none;
  scale.adaptive = adaptive;
  ratio.ratios["epic"] = none;
  unmet.unmet["epic"] = infinite;
  loss.tuned[kAlphaPart].loss = none;
  adaptive.kl_scale = 1;
  adaptive.step = 0;
  step.adaptive = adaptive;
  for (const ModelProfile& bad : {bound, scale, ratio, unmet, loss, step}) {
    try {
      write_profile(kDigest, bad);
      ADD_FAILURE() << to_json(bad);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_THAT(error.what(), HasSubstr("is expected - it stays as it was"));
    }
  }
  EXPECT_EQ(read_text(profile_file(kDigest)), before);
}

TEST_F(ModelProfileTest, TaskNamedByAnyBytesIsWritten) {
  ModelProfile profile = full_profile();
  profile.tuned[kAlphaPart].tasks = {"caf\xe9"};
  write_profile(kDigest, profile);

  EXPECT_EQ(read_profile(kDigest).adaptive, profile.adaptive);
}

TEST_F(ModelProfileTest, FolderThatCannotBeMadeIsSaid) {
  std::ofstream(scratch_.path() / "tessera") << "a file where the folder should be";

  EXPECT_THROW(write_profile(kDigest, full_profile()), Error);
}

TEST_F(ModelProfileTest, TunedValuesStandOnlyWhereNoneWereGiven) {
  PolicyOptions untouched, tuned, given;
  apply(full_profile(), "adacache", {.ratio = true, .soft_ratio = true}, untouched);
  apply(full_profile(), "adacache", {}, tuned);
  given.recompute_ratio = 0.5;
  apply(full_profile(), "adacache", {.ratio = true}, given);

  EXPECT_EQ(untouched.recompute_ratio, PolicyOptions{}.recompute_ratio);
  EXPECT_EQ(untouched.soft_ratio, PolicyOptions{}.soft_ratio);
  EXPECT_EQ(tuned.recompute_ratio, 0.12);
  EXPECT_EQ(tuned.soft_ratio, 0.04);
  EXPECT_EQ(given.recompute_ratio, 0.5);
  EXPECT_EQ(given.soft_ratio, 0.04);
}

TEST_F(ModelProfileTest, EachPolicyHasItsOwnRatio) {
  PolicyOptions query_aware, epic;
  apply(full_profile(), "query_aware", {}, query_aware);
  apply(full_profile(), "epic", {}, epic);

  EXPECT_EQ(query_aware.recompute_ratio, 0.08);
  EXPECT_EQ(query_aware.soft_ratio, PolicyOptions{}.soft_ratio);
  EXPECT_EQ(epic.recompute_ratio, PolicyOptions{}.recompute_ratio);
}

TEST_F(ModelProfileTest, AdaptiveContextTakesWhatWasNotGiven) {
  AdaptiveContext tuned, given, scaled;
  given.confidence.lambda = 1;
  apply(full_profile(), {}, tuned);
  apply(full_profile(), {.lambda = true, .threshold = true}, given);
  apply(full_profile(), {.kl_scale = true}, scaled);

  EXPECT_EQ(tuned.confidence.lambda, 0.25);
  EXPECT_EQ(tuned.confidence.kl_scale, 1.5);
  EXPECT_EQ(tuned.threshold, 0.7);
  EXPECT_EQ(given.confidence.lambda, 1);
  EXPECT_EQ(given.confidence.kl_scale, 1.5);
  EXPECT_EQ(given.threshold, AdaptiveContext{}.threshold);
  EXPECT_EQ(scaled.confidence.kl_scale, AdaptiveContext{}.confidence.kl_scale);
}

TEST_F(ModelProfileTest, TunedValuesAreNamedWithHowTheyWereFound) {
  ModelProfile profile = full_profile();
  profile.tuned[kBetaPart] = profile.tuned[kAlphaPart];
  profile.tuned["query_aware"].n = 1;
  profile.tuned["query_aware"].date = "2025-02-01";
  const AdaptiveContext adaptive;

  EXPECT_THAT(notes_on(profile, "adacache"),
              ElementsAre("tuned: alpha 0.04, beta 0.12 (40 questions, 2025-01-31)"));
  EXPECT_THAT(notes_on(profile, "adacache", {.ratio = true}),
              ElementsAre("tuned: alpha 0.04 (40 questions, 2025-01-31)"));
  EXPECT_THAT(
      notes_on(profile, "query_aware", {}, adaptive),
      ElementsAre("tuned: ratio 0.08 (1 question, 2025-02-01)",
                  "tuned: lambda 0.25, kl_scale 1.5, tau 0.7 (40 questions, 2025-01-31)",
                  "adaptive context was tuned under adacache at step 1, not under query_aware at "
                  "step 1"));
  EXPECT_THAT(notes_on(profile, "full", {.threshold = true, .kl_scale = true}, adaptive),
              ElementsAre("tuned: lambda 0.25 (40 questions, 2025-01-31)"));
  EXPECT_THAT(notes_on(profile, "epic"), IsEmpty());
  EXPECT_THAT(notes_on(profile, "query_aware", {.ratio = true}), IsEmpty());
}

TEST_F(ModelProfileTest, AlphaThatBetaCutsIsNotCalledTuned) {
  const ModelProfile profile = full_profile();
  const GivenOptions given = {.ratio = true};
  PolicySetting setting;
  setting.policy = "adacache";
  setting.options.recompute_ratio = 0.02;
  apply(profile, setting.policy, given, setting.options);

  EXPECT_EQ(setting.options.alpha(), 0.02);
  EXPECT_EQ(ratio_text(profile, setting.policy, given, setting.options), "0.02, alpha 0.02");
  EXPECT_THAT(profile_notes(profile, given, {&setting, 1}, {}), IsEmpty());
}

TEST_F(ModelProfileTest, NotesOnSeveralPoliciesNameThemAndAreSaidOnce) {
  EXPECT_THAT(
      notes_on_all(full_profile(), {"epic", "adacache", "reuse", "adacache"}),
      ElementsAre("adacache: tuned: alpha 0.04 (40 questions, 2025-01-31)",
                  "adacache: untuned: beta 0.12 - 'tessera tune' finds them",
                  "tuned: lambda 0.25, kl_scale 1.5, tau 0.7 (40 questions, 2025-01-31)",
                  "adaptive context was tuned under adacache at step 1, not under epic, reuse at "
                  "step 1"));
}

TEST_F(ModelProfileTest, RatiosAreShownWithTheirOrigin) {
  ModelProfile profile = full_profile();
  profile.tuned["query_aware"].n = 7;
  const auto text = [&](const char* policy, const GivenOptions& given) {
    PolicyOptions options;
    apply(profile, policy, given, options);
    return ratio_text(profile, policy, given, options);
  };

  EXPECT_EQ(text("adacache", {}), "0.12, alpha 0.04 (tuned)") << "there is no record of beta";
  EXPECT_EQ(text("query_aware", {}), "0.08 (tuned)");
  EXPECT_EQ(text("query_aware", {.ratio = true}), "0.15");
  EXPECT_EQ(text("epic", {}), "0.15");
  EXPECT_EQ(text("reuse", {}), "-");
  PolicyOptions heads;
  heads.head_tokens = 4;
  EXPECT_EQ(ratio_text(profile, "epic", {}, heads), "-");
}

TEST_F(ModelProfileTest, RatiosOfUnlikeOriginAreSaid) {
  ModelProfile profile;
  profile.tuned[kBetaPart].n = 7;
  const auto is_said = Contains(HasSubstr("is not tuned for this model"));
  const std::vector<std::string> all = {"adacache", "cacheblend", "epic", "random"};

  EXPECT_THAT(
      notes_on_all(profile, all),
      Contains(AllOf(HasSubstr("of cacheblend, epic is not tuned"), HasSubstr("of adacache is"),
                     HasSubstr("--policies cacheblend,epic'"), Not(HasSubstr("random")))));
  EXPECT_THAT(notes_on_all(profile, {"adacache"}), Not(is_said));
  EXPECT_THAT(notes_on_all(profile, {"epic", "cacheblend"}), Not(is_said));
  EXPECT_THAT(notes_on_all(profile, {"adacache", "epic"}, {.ratio = true}), Not(is_said));
}

TEST_F(ModelProfileTest, TuningThatFoundNoRatioIsNotAdvisedAgain) {
  ModelProfile profile;
  profile.tuned[kBetaPart].n = 7;
  profile.unmet["epic"] = 0.01;

  EXPECT_THAT(notes_on_all(profile, {"adacache", "cacheblend", "epic"}),
              Contains(AllOf(HasSubstr("of cacheblend, epic (exceeds the bound of the last tuning) "
                                       "is not tuned"),
                             HasSubstr("--policies cacheblend'"))));
  EXPECT_THAT(
      notes_on_all(profile, {"adacache", "epic"}),
      Contains(AllOf(HasSubstr("is not tuned for this model"), Not(HasSubstr("--policies")))));
}

TEST_F(ModelProfileTest, UntunedValuesAreNamed) {
  const ModelProfile untuned;

  EXPECT_THAT(notes_on(untuned, "adacache", {}, AdaptiveContext{}),
              ElementsAre("untuned: alpha 0.08, beta 0.15 - 'tessera tune' finds them",
                          "untuned: lambda 0.5, kl_scale 1, tau 0.5 - 'tessera tune' finds them"));
  EXPECT_THAT(notes_on(full_profile(), "adacache"),
              Contains("untuned: beta 0.12 - 'tessera tune' finds them"));
  EXPECT_THAT(notes_on(untuned, "query_aware"), IsEmpty());
  EXPECT_THAT(notes_on(untuned, "adacache", {.ratio = true, .soft_ratio = true}), IsEmpty());
}

TEST_F(ModelProfileTest, BoundsThatNothingMetAreSaid) {
  ModelProfile profile;
  profile.unmet = {{kBetaPart, 0.01}, {"epic", 0.01}, {kAdaptivePart, 0}};

  EXPECT_THAT(notes_on(profile, "adacache", {}, AdaptiveContext{}),
              ElementsAre(HasSubstr("alpha 0.08, beta 0.15 (exceeds the bound of the last"),
                          HasSubstr("tau 0.5 (the last tuning found none")));
  EXPECT_THAT(notes_on(profile, "epic"), ElementsAre(HasSubstr("ratio 0.15 (exceeds")));
  EXPECT_THAT(notes_on(profile, "epic", {.ratio = true}), IsEmpty());
}

TEST_F(ModelProfileTest, TunedValuesBesideOthersThanTheyWereTunedWithAreSaid) {
  const ModelProfile profile = full_profile();
  const AdaptiveContext one;
  AdaptiveContext two;
  two.step = 2;

  EXPECT_THAT(notes_on(profile, "adacache", {}, one), Not(Contains(HasSubstr("not under"))));
  EXPECT_THAT(notes_on(profile, "epic", {}, one),
              Contains(HasSubstr("tuned under adacache at step 1, not under epic at step 1")));
  EXPECT_THAT(notes_on(profile, "adacache", {}, two),
              Contains(HasSubstr("not under adacache at step 2")));
  EXPECT_THAT(notes_on(profile, "adacache", {.lambda = true}, one),
              Contains(HasSubstr("give --adaptive-threshold too")));
  EXPECT_THAT(notes_on(profile, "adacache", {.kl_scale = true}, one),
              Contains(HasSubstr("tau 0.7 was tuned with")));
  EXPECT_THAT(notes_on(profile, "epic", {.lambda = true, .threshold = true}, two),
              Not(Contains(HasSubstr("not "))));
}

TEST_F(ModelProfileTest, MergePutsNamedPartsInPlaceOfThoseThatWereThere) {
  ModelProfile into = full_profile(), from;
  into.sink_layer = 3;
  into.ratios["epic"] = 0.3;
  from.adacache = {.alpha = 0.1, .beta = 0.2};
  from.tuned[kBetaPart].n = 7;
  from.unmet[kAdaptivePart] = 0.02;
  from.ratios["cacheblend"] = 0.05;
  merge(from, {kBetaPart, kAlphaPart, kAdaptivePart, "query_aware", "cacheblend"}, into);

  EXPECT_EQ(into.sink_layer, 3);
  EXPECT_EQ(into.adacache, from.adacache);
  EXPECT_FALSE(into.adaptive);
  EXPECT_EQ(into.ratios, (std::map<std::string, double>{{"cacheblend", 0.05}, {"epic", 0.3}}));
  EXPECT_EQ(into.tuned, from.tuned);
  EXPECT_EQ(into.unmet, from.unmet);
}

}  // namespace
}  // namespace tessera
