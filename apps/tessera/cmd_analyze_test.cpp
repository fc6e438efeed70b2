// `tessera analyze deviation` and `overlap` as a user meets them, on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.h"
#include "support/engine_rig.h"
#include "support/tiny_gguf.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class CliAnalyze : public testing::Test {
 protected:
  CliAnalyze() {
    std::ofstream out(file_);
    for (uint32_t i = 0; i < 2; ++i) {
      json passages = json::array();
      for (uint32_t p = 0; p < 3; ++p)
        passages.push_back({{"title", "title"}, {"text", words(30, 10 * i + p)}});
      out << json{{"id", "q" + std::to_string(i)},
                  {"question", "which river is in the city"},
                  {"answers", {"the river"}},
                  {"passages", passages}}
          << "\n";
    }
  }

  Outcome run(const std::string& kind, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"analyze", kind, "--file", file_.string(), "-m", model_};
    all.insert(all.end(), more.begin(), more.end());
    return tessera_.run(all);
  }

  json json_of(const std::string& kind, std::vector<std::string> more) {
    more.emplace_back("--json");
    const Outcome result = run(kind, more);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }

  void expect_files(const std::string& name) const {
    const auto text_of = [&](const std::string& ending) {
      std::ifstream in(out_ / (name + ending));
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_FALSE(json::parse(text_of(".json"), nullptr, false).is_discarded());
    EXPECT_THAT(text_of(".svg"), HasSubstr("</svg>"));
    EXPECT_EQ(text_of(".png").substr(1, 3), "PNG");
  }

  Program tessera_;
  const std::string model_ = shared_model_file().path().string();
  const fs::path file_ = tessera_.cache() / "mine.jsonl";
  const fs::path out_ = tessera_.cache() / "analysis";
};

TEST_F(CliAnalyze, DeviationIsGivenByAnchorAndLayer) {
  const json report = json_of("deviation", {"--out", out_.string(), "--anchors", "bare,leadin"});

  ASSERT_EQ(report["tasks"].size(), 1U);
  const json& task = report["tasks"][0];
  EXPECT_EQ(task["prompts"], 2);
  ASSERT_EQ(task["anchors"].size(), 2U);
  for (const json& anchor : task["anchors"]) {
    EXPECT_GT(anchor["k"]["error"]["value"], 0) << anchor["anchor"];
    EXPECT_LE(anchor["v"]["cosine"]["value"], 1) << anchor["anchor"];
    EXPECT_EQ(anchor["v"]["cosine"]["n"], 2);
    EXPECT_GT(anchor["layers"].size(), 1U);
  }
  expect_files("deviation");

  const Outcome table = run("deviation", {"--limit", "1"});
  EXPECT_THAT(table.out, HasSubstr("preamble"));
  const Outcome few = run("deviation", {"--passages", "1"});
  EXPECT_EQ(few.status, 2);
  EXPECT_THAT(few.err, HasSubstr("at least 2 are needed"));
}

TEST_F(CliAnalyze, OverlapIsGivenForEveryPairOfVariants) {
  const json report = json_of("overlap", {"--out", out_.string(), "--scorer", model_});

  const json& names = report["variants"];
  EXPECT_THAT(names,
              testing::IsSupersetOf({json("epic"), json("cacheblend"), json("random"),
                                     json("oracle"), json("speccache"), json("speccache online"),
                                     json("speccache last"), json("speccache no spans")}));
  const json& task = report["tasks"][0];
  ASSERT_EQ(task["overlap"].size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(task["overlap"][i][i]["value"], 1) << names[i];
    EXPECT_NEAR(task["chosen_share"][i], report["ratio"], 0.05) << names[i];
  }
  expect_files("overlap");
}

TEST_F(CliAnalyze, PopularityNeedsNoModel) {
  const Outcome said = tessera_.run({"analyze", "popularity", "--file", file_.string(), "--json"});

  ASSERT_EQ(said.status, 0) << said.err;
  const json task = json::parse(said.out)["tasks"][0];
  EXPECT_EQ(task["questions"], 2);
  size_t n_requests = 0;
  for (const json& count : task["counts"]) n_requests += count.get<size_t>();
  EXPECT_EQ(n_requests, 2U);  // the best one of each question
  EXPECT_EQ(task["served"].back()["passages_share"], 0.5);
}

TEST_F(CliAnalyze, OverlapWithoutAScorerSaysWhatIsLeftOut) {
  const Outcome said = run("overlap", {"--limit", "1"});

  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("speccache is left out"));
  EXPECT_THAT(said.out, HasSubstr("oracle"));
  EXPECT_EQ(run("overlap", {"--ratio", "2"}).status, 2);
  EXPECT_EQ(run("overlap", {"--scorer-layers", "deep"}).status, 2);
}

}  // namespace
}  // namespace tessera
