// `tessera gate` on a tiny model of random weights, which reads nothing, and what `ask` makes of
// its verdict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "cli/program.h"
#include "support/engine_rig.h"
#include "support/tiny_gguf.h"
#include "tessera/shipped_gates.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class CliGate : public testing::Test {
 protected:
  Outcome gate(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"gate", "-m", shared_model_file().path().string(), "--json"});
    return tessera_.run(more);
  }
  json ask() {
    const fs::path file = tessera_.cache() / "p.json";
    std::ofstream(file) << json{words(40, 7), words(40, 8)};
    const Outcome run =
        tessera_.run({"ask", "which river", "--passages", file.string(), "-m",
                      shared_model_file().path().string(), "--max-tokens", "2", "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out, nullptr, false);
  }
  fs::path profile_of(const json& report) const {
    return tessera_.cache() / "data" / "tessera" / "profiles" /
           ("model-" + report["model_digest"].get<std::string>() + ".json");
  }
  static json check_of(const json& report, const std::string& name) {
    for (const json& check : report["gate"]["checks"])
      if (check["name"] == name) return check;
    return nullptr;
  }

  Program tessera_;
};

TEST_F(CliGate, ModelThatReadsNothingFailsAndAskFallsBack) {
  const Outcome run = gate();
  const json report = json::parse(run.out, nullptr, false);

  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_EQ(check_of(report, "moved_k")["passed"], true);
  EXPECT_EQ(check_of(report, "nats")["passed"], false);
  EXPECT_EQ(report["gate"]["verdict"], "fail");
  EXPECT_EQ(report["gate"]["policy"], "prefix");
  EXPECT_EQ(report["gate"]["loss"], nullptr);
  EXPECT_EQ(json::parse(std::ifstream(profile_of(report)))["gate"], report["gate"]);
  const auto shipped = shipped_gate(find_model("smollm2-135m").sha256);
  ASSERT_TRUE(shipped);
  EXPECT_EQ(report["gate"]["data_digest"], shipped.value_or(GateRecord{}).data_digest)
      << "verdicts that come with the program are of other questions";
  const json answer = ask();
  EXPECT_EQ(answer["policy"], "prefix");
  EXPECT_THAT(answer["fallback"]["why"], HasSubstr("has failed this model"));
}

TEST_F(CliGate, ModelThatHasPassedIsAskedUnderItsPolicyAndRatio) {
  const json report = json::parse(gate().out, nullptr, false);
  json profile = json::parse(std::ifstream(profile_of(report)));
  profile["gate"].update({{"verdict", "pass"}, {"policy", "epic"}, {"ratio", 0.5}});
  std::ofstream(profile_of(report)) << profile;
  ask();  // stores what it misses

  const json answer = ask();

  EXPECT_EQ(answer["policy"], "epic");
  EXPECT_FALSE(answer.contains("fallback") || answer.contains("forced"));
  const double recomputed = answer["usage"]["recomputed"], loaded = answer["usage"]["independent"];
  EXPECT_NEAR(recomputed / (recomputed + loaded), 0.5, 0.05);
}

TEST_F(CliGate, EveryPlantedFaultFailsAtTheFirstCheckAndWritesNothing) {
  for (const char* fault : {"pairing", "base", "position"}) {
    const Outcome run = gate({"--plant", fault});
    const json report = json::parse(run.out, nullptr, false);

    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_EQ(check_of(report, "moved_k")["passed"], false) << fault;
    EXPECT_EQ(report["written"], false);
    EXPECT_FALSE(fs::exists(profile_of(report)));
  }
}

TEST_F(CliGate, ContextThatHoldsNoQuestionIsSaid) {
  const Outcome run = gate({"--ctx", "128"});

  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("128"));
}

TEST_F(CliGate, PoliciesWithNothingToMeasureAreRefusedBeforeTheModelLoads) {
  const Outcome run = tessera_.run({"gate", "--policy", "prefix", "-m", "no-such-model"});

  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("nothing to measure"));
}

}  // namespace
}  // namespace tessera
