#include "tessera/model_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
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
    out.adaptive = {.lambda = 0.25, .kl_scale = 1.5, .threshold = 0.7};
    out.ratios = {{"query_aware", 0.08}};
    out.tuned[kAlphaPart] = {.date = "2025-01-31",
                             .tasks = {"squad", "hotpotqa"},
                             .data_digest = "ff00",
                             .metric = "kl",
                             .bound = 0.1,
                             .loss = 0.08,
                             .n = 40};
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
        changed("/adaptive/lambda", nullptr), changed("/ratios/query_aware", -0.1),
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

TEST_F(ModelProfileTest, AdaptiveContextTakesItsScaleWithOrWithoutTheRest) {
  AdaptiveContext tuned, given;
  given.confidence.lambda = 1;
  apply(full_profile(), {}, tuned);
  apply(full_profile(), {.lambda = true, .threshold = true}, given);

  EXPECT_EQ(tuned.confidence.lambda, 0.25);
  EXPECT_EQ(tuned.confidence.kl_scale, 1.5);
  EXPECT_EQ(tuned.threshold, 0.7);
  EXPECT_EQ(given.confidence.lambda, 1);
  EXPECT_EQ(given.confidence.kl_scale, 1.5);
  EXPECT_EQ(given.threshold, AdaptiveContext{}.threshold);
}

TEST_F(ModelProfileTest, UntunedValuesAreNamed) {
  const PolicyOptions options;
  const AdaptiveContext adaptive;
  const ModelProfile untuned, tuned = full_profile();

  EXPECT_THAT(untuned_note(untuned, "adacache", {}, options, &adaptive),
              testing::AllOf(HasSubstr("alpha 0.08, beta 0.15, lambda 0.5, tau"),
                             HasSubstr("the paper's shape, not tuned")));
  EXPECT_THAT(untuned_note(tuned, "adacache", {}, options, nullptr),
              testing::AllOf(HasSubstr("beta"), testing::Not(HasSubstr("alpha"))));
  EXPECT_EQ(untuned_note(untuned, "query_aware", {}, options, nullptr), "");
  const GivenOptions both = {.ratio = true, .soft_ratio = true};
  EXPECT_EQ(untuned_note(untuned, "adacache", both, options, nullptr), "");
}

}  // namespace
}  // namespace tessera
