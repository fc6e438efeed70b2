// Every task and metric keeps the contract, so that a new one is tested by its registration alone.
#include "eval/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "base/error.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

constexpr const char* kLine =
    R"({"id": "1", "question": "q", "answers": ["a"], "passages": [{"title": "t", "text": "p"}]})";

TEST(TaskRegistry, HaveNamesOfTheirOwnAndReadTheirFile) {
  const store_testing::ScratchDir folder;
  std::set<std::string_view> names;
  for (const Task& task : tasks()) {
    EXPECT_TRUE(names.insert(task.name).second) << task.name;
    EXPECT_FALSE(task.summary.empty()) << task.name;
    const auto file = folder.path() / (std::string(task.file_stem) + ".dev.jsonl");
    std::ofstream(file) << kLine << "\n";

    const std::vector<Sample> samples = task.read(file, {});

    ASSERT_EQ(samples.size(), 1U) << task.name;
    EXPECT_FALSE(samples[0].passages.empty()) << task.name;
  }
}

TEST(TaskRegistry, SlipOfANameIsAnsweredWithTheNearest) {
  EXPECT_EQ(find_task("squad").name, "squad");
  try {
    find_task("sqaud");
    FAIL() << "it was found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'squad'"));
  }
}

TEST(MetricRegistry, HaveNamesOfTheirOwnAndFiniteValues) {
  Measurement measurement;
  measurement.ttft_ms = measurement.full_ttft_ms = 10;
  measurement.account.fresh = 8;
  std::set<std::string_view> names;
  for (const Metric& metric : metrics()) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_FALSE(metric.title.empty() || metric.unit.empty()) << metric.name;
    EXPECT_TRUE(std::isfinite(metric.value(measurement))) << metric.name;
  }
}

TEST(MetricRegistry, CountProbeRowsAmongTheRows) {
  Measurement measurement;
  measurement.ttft_ms = 20;
  measurement.full_ttft_ms = 50;
  measurement.account = {.exact = 10, .independent = 60, .recomputed = 10, .fresh = 20};
  measurement.probe_rows = 5;
  const auto value_of = [&](std::string_view name) {
    for (const Metric& metric : metrics())
      if (metric.name == name) return metric.value(measurement);
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(value_of("rows_share"), 0.35);
  EXPECT_DOUBLE_EQ(value_of("ttft_ratio"), 2.5);
}

Measurement smallest() {
  Measurement out;
  out.ttft_ms = out.full_ttft_ms = 1e-3;
  out.account.fresh = 1;
  return out;
}

TEST(Measurements, ComeBackFromTheirRecordToTheLastBit) {
  Measurement measurement;
  measurement.key = {"squad", "q-1", "leadin", "epic", 0.15};
  measurement.inputs = {.sample = "0123456789abcdef", .scorer = "fedcba9876543210"};
  measurement.answer = "a \"b\"\n\xC3\xA9";
  measurement.kl = 0.1 + 0.2;
  measurement.top1 = 1.0 / 3;
  measurement.n_positions = 3;
  measurement.gold_nll = 1e-17;
  measurement.f1 = 2.0 / 3;
  measurement.exact_match = 1;
  measurement.ttft_ms = 12.345678901234567;
  measurement.full_ttft_ms = 1e5;
  measurement.probe_rows = 1.5;
  measurement.scorer_rows = 2;
  measurement.account = {1, 2, 3, 4, 5};

  const std::string line = record_of(measurement).dump();
  const Measurement back = measurement_of(nlohmann::json::parse(line)).value_or(Measurement{});

  EXPECT_EQ(back.key, measurement.key);
  EXPECT_EQ(back.inputs, measurement.inputs);
  EXPECT_EQ(back.account, measurement.account);
  EXPECT_EQ(back.kl, measurement.kl);
  EXPECT_EQ(record_of(back).dump(), line);
}

TEST(Measurements, RecordWithAFieldMissingOrOfAnotherTypeIsNone) {
  const nlohmann::json whole = nlohmann::json::parse(record_of(smallest()).dump());
  ASSERT_TRUE(measurement_of(whole).has_value());
  for (const auto& [name, value] : whole.items()) {
    if (name == "kind") continue;  // what the reader of the file has looked at before
    nlohmann::json missing = whole, other = whole;
    missing.erase(name);
    other[name] = nullptr;
    EXPECT_FALSE(measurement_of(missing).has_value()) << name;
    EXPECT_FALSE(measurement_of(other).has_value()) << name;
  }
  EXPECT_FALSE(measurement_of(nlohmann::json::array()).has_value());
}

// Metrics divide by times and tokens.
TEST(Measurements, WhatCannotHaveBeenMeasuredIsNone) {
  Measurement no_time = smallest(), no_full_time = smallest(), no_tokens = smallest(),
              less_than_none = smallest(), too_many = smallest(), infinite = smallest();
  no_time.ttft_ms = 0;
  no_full_time.full_ttft_ms = -1;
  no_tokens.account = {};
  less_than_none.account = {.exact = -1, .fresh = 5};
  too_many.account.exact = std::numeric_limits<int32_t>::max();
  infinite.kl = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(is_sound(smallest()));
  for (const Measurement& bad :
       {no_time, no_full_time, no_tokens, less_than_none, too_many, infinite}) {
    EXPECT_FALSE(is_sound(bad));
    EXPECT_FALSE(measurement_of(nlohmann::json::parse(record_of(bad).dump())).has_value());
  }
}

}  // namespace
}  // namespace tessera
