#include "tessera/model_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kDigest = "0123abcd";

// The data folder is one of its own while a test runs.
class ModelProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("XDG_DATA_HOME")) before_ = value;
    ::setenv("XDG_DATA_HOME", scratch_.path().c_str(), 1);
  }
  void TearDown() override {
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
    return out;
  }

  static json read_json() { return json::parse(std::ifstream(profile_file(kDigest))); }
  static void write_json(const json& value) { write_text(value.dump()); }
  static void write_text(const std::string& text) {
    fs::create_directories(profile_file(kDigest).parent_path());
    std::ofstream(profile_file(kDigest)) << text;
  }

  ScratchFolder scratch_{testing::TempDir()};
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
        changed("/unmet/cacheblend", "x"), changed("/ratios/query_aware", -0.1),
        changed("/tuned/adacache.alpha/n", "40")}) {
    write_text(text);
    EXPECT_EQ(read_profile(kDigest), ModelProfile{}) << text;
  }
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

TEST_F(ModelProfileTest, UntunedValuesAreNamed) {
  const PolicyOptions options;
  const AdaptiveContext adaptive;
  const ModelProfile untuned, tuned = full_profile();

  EXPECT_EQ(untuned_note(untuned, "adacache", {}, options, &adaptive),
            "untuned: alpha 0.08, beta 0.15, lambda 0.5, kl_scale 1, tau 0.5 - 'tessera tune' "
            "finds them");
  EXPECT_THAT(untuned_note(tuned, "adacache", {}, options, nullptr),
              testing::AllOf(HasSubstr("beta"), Not(HasSubstr("alpha"))));
  EXPECT_EQ(untuned_note(untuned, "query_aware", {}, options, nullptr), "");
  const GivenOptions both = {.ratio = true, .soft_ratio = true};
  EXPECT_EQ(untuned_note(untuned, "adacache", both, options, nullptr), "");
}

TEST_F(ModelProfileTest, BoundsThatNothingMetAreSaid) {
  ModelProfile profile;
  profile.unmet = {{kBetaPart, 0.01}, {"epic", 0.01}, {kAdaptivePart, 0}};
  const AdaptiveContext adaptive;

  EXPECT_THAT(untuned_note(profile, "adacache", {}, {}, &adaptive),
              testing::AllOf(HasSubstr("alpha 0.08, beta 0.15 (exceeds the bound of the last"),
                             HasSubstr("tau 0.5 (the last tuning found none")));
  EXPECT_THAT(untuned_note(profile, "epic", {}, {}, nullptr), HasSubstr("ratio 0.15 (exceeds"));
  EXPECT_EQ(untuned_note(profile, "epic", {.ratio = true}, {}, nullptr), "");
}

TEST_F(ModelProfileTest, TunedValuesBesideOthersThanTheyWereTunedWithAreSaid) {
  const ModelProfile tuned = full_profile();
  AdaptiveContext one, two;
  two.step = 2;
  const auto note = [&](const char* policy, const GivenOptions& given, const AdaptiveContext& a) {
    return untuned_note(tuned, policy, given, {}, &a);
  };
  const GivenOptions ratios = {.ratio = true, .soft_ratio = true};

  EXPECT_EQ(note("adacache", ratios, one), "");
  EXPECT_THAT(note("epic", {}, one), HasSubstr("tuned under adacache at step 1"));
  EXPECT_THAT(note("adacache", {}, two), HasSubstr("not under adacache at step 2"));
  EXPECT_THAT(note("adacache", {.lambda = true}, one), HasSubstr("give --adaptive-threshold too"));
  EXPECT_THAT(note("adacache", {.kl_scale = true}, one), HasSubstr("tau 0.7 was tuned with"));
  EXPECT_EQ(note("epic", {.lambda = true, .threshold = true}, two), "");
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
