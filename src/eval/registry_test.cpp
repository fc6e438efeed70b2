// Every task and metric keeps the contract, so that a new one is tested by its registration alone.
#include "eval/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

// What a file of a task in that folder holds.
std::string content_of(std::string_view folder) {
  const std::string passages = R"("passages": [{"title": "t", "text": "p"}]})";
  if (folder == "qa") return R"({"id": "1", "question": "q", "answers": ["a"], )" + passages;
  if (folder == "summ") return R"({"id": "1", "query": "q", "reference": "a", )" + passages;
  if (folder == "mcq") return R"({"id": "1", "question": "q", "choices": ["x", "y"], "answer": 1})";
  std::string text;
  while (text.size() < 40'000) text += "It was a long day at sea. ";
  return text;
}

TEST(TaskRegistry, HaveNamesOfTheirOwnAndReadTheirFile) {
  const store_testing::ScratchDir data;
  std::set<std::string_view> names;
  for (const Task& task : tasks()) {
    EXPECT_TRUE(names.insert(task.name).second) << task.name;
    EXPECT_FALSE(task.summary.empty()) << task.name;
    std::filesystem::create_directories(data.path() / task.folder);
    const auto file = task_file(task, data.path(), "dev");
    std::ofstream(file) << content_of(task.folder);

    const std::vector<Sample> samples = task.read(file, {});

    ASSERT_FALSE(samples.empty()) << task.name;
    EXPECT_EQ(samples[0].passages.empty(), task.passages == Passages::kRetrieved) << task.name;
    EXPECT_FALSE(samples[0].answers.empty()) << task.name;
  }
}

TEST(TaskRegistry, FileIsInTheFolderOfTheDataOrInTheDataItself) {
  const store_testing::ScratchDir data;
  const Task squad = find_task("squad");
  EXPECT_EQ(task_file_name(squad, "tune"), "squad.tune.jsonl");
  EXPECT_EQ(task_file_name(find_task("needle"), "tune"), "frankenstein.txt");

  EXPECT_EQ(task_file(squad, data.path(), "dev"), data.path() / "squad.dev.jsonl");
  std::filesystem::create_directories(data.path() / "qa");
  EXPECT_EQ(task_file(squad, data.path(), "dev"), data.path() / "qa" / "squad.dev.jsonl");
  std::ofstream(data.path() / "squad.dev.jsonl") << "{}";
  EXPECT_EQ(task_file(squad, data.path(), "dev"), data.path() / "squad.dev.jsonl");
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
    EXPECT_TRUE(std::isfinite(metric.value(measurement).value_or(0))) << metric.name;
  }
}

std::optional<double> value_of(std::string_view name, const Measurement& measurement) {
  for (const Metric& metric : metrics()) {
    if (metric.name == name) return metric.value(measurement);
  }
  ADD_FAILURE() << "no metric " << name;
  return std::nullopt;
}

TEST(MetricRegistry, ApplyToTheAnswersThatTheyAreFor) {
  Measurement brief, summary, choice;
  for (Measurement* o : {&brief, &summary, &choice}) o->f1 = o->exact_match = 1;
  summary.rouge_l = 0.25;
  choice.accuracy = 0;

  EXPECT_EQ(value_of("f1", brief), 1.0);
  EXPECT_EQ(value_of("exact_match", brief), 1.0);
  EXPECT_EQ(value_of("rouge_l", brief), std::nullopt);
  EXPECT_EQ(value_of("accuracy", brief), std::nullopt);
  EXPECT_EQ(value_of("rouge_l", summary), 0.25);
  EXPECT_EQ(value_of("accuracy", choice), 0.0);
  for (const Measurement& o : {summary, choice}) {
    EXPECT_EQ(value_of("f1", o), std::nullopt);
    EXPECT_EQ(value_of("exact_match", o), std::nullopt);
  }
}

TEST(MetricRegistry, CompareWithFullPrefill) {
  Measurement o;
  o.f1 = 0.75;
  o.gold_nll = 2.5;
  o.full_gold_nll = 2;
  o.full_f1 = 0.5;
  EXPECT_EQ(value_of("gold_nll_gap", o), 0.5);
  EXPECT_EQ(value_of("f1_answered", o), 0.75);
  o.full_f1 = 0.49;
  EXPECT_EQ(value_of("f1_answered", o), std::nullopt) << "full prefill does not answer it";
}

TEST(MetricRegistry, CountProbeRowsAmongTheRows) {
  Measurement measurement;
  measurement.ttft_ms = 20;
  measurement.full_ttft_ms = 50;
  measurement.account = {.exact = 10, .independent = 60, .recomputed = 10, .fresh = 20};
  measurement.probe_rows = 5;
  EXPECT_DOUBLE_EQ(value_of("rows_share", measurement).value_or(-1), 0.35);
  EXPECT_DOUBLE_EQ(value_of("ttft_ratio", measurement).value_or(-1), 2.5);
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

TEST(Measurements, WhatOnlySomeRowsHaveComesBackOrMayBeMissing) {
  Measurement measurement = smallest();
  measurement.rouge_l = 0.1 + 0.2;
  measurement.full_f1 = 0.7;
  measurement.full_gold_nll = 1e-17;
  nlohmann::json record = nlohmann::json::parse(record_of(measurement).dump());
  EXPECT_FALSE(record.contains("accuracy"));

  const Measurement back = measurement_of(record).value_or(Measurement{});
  EXPECT_EQ(back.rouge_l, measurement.rouge_l);
  EXPECT_EQ(back.full_f1, measurement.full_f1);
  EXPECT_EQ(back.full_gold_nll, measurement.full_gold_nll);
  EXPECT_EQ(back.accuracy, std::nullopt);

  record.erase("rouge_l");
  EXPECT_TRUE(measurement_of(record).has_value());
  record["accuracy"] = "right";
  EXPECT_FALSE(measurement_of(record).has_value());
  measurement.full_gold_nll = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(is_sound(measurement));
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
