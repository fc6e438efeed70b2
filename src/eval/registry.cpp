// Every task and every metric, in one place. To add a task: write tasks/NAME.cpp, then add its
// declaration and row here. To add a metric: add its row here, and what it reads to Measurement.
#include "eval/registry.h"

#include "base/error.h"
#include "base/text_util.h"

namespace tessera {

Task make_squad();
Task make_hotpotqa();
Task make_2wikimultihopqa();
Task make_musique();
Task make_musique_blend();
Task make_2wiki_blend();
Task make_triviaqa();
Task make_nq();
Task make_popqa();
Task make_xquad();
Task make_qmsum();
Task make_needle();
Task make_mmlu();
Task make_mmlu_pro();
Task make_supergpqa();

namespace {

constexpr Task (*kTasks[])() = {
    make_squad,         make_hotpotqa,    make_2wikimultihopqa, make_musique,
    make_musique_blend, make_2wiki_blend, make_triviaqa,        make_nq,
    make_popqa,         make_xquad,       make_qmsum,           make_needle,
    make_mmlu,          make_mmlu_pro,    make_supergpqa};

// From here on full prefill has answered: what a policy does to a question that it fails as well
// says little about the policy.
constexpr double kAnsweredF1 = 0.5;

std::optional<double> short_answer(const Measurement& o, double value) {
  return o.rouge_l || o.accuracy ? std::nullopt : std::optional(value);
}
std::optional<double> answered_f1(const Measurement& o) {
  return o.full_f1 >= kAnsweredF1 ? short_answer(o, o.f1) : std::nullopt;
}
std::optional<double> gold_nll_gap(const Measurement& o) { return o.gold_nll - o.full_gold_nll; }
std::optional<double> ttft_ratio(const Measurement& o) { return o.full_ttft_ms / o.ttft_ms; }
std::optional<double> rows_share(const Measurement& o) {
  return (o.account.rows() + o.probe_rows) / o.account.total();
}

constexpr Metric kMetrics[] = {
    {.name = "kl",
     .title = "KL",
     .unit = "nats",
     .decimals = 4,
     .value = [](const Measurement& o) { return std::optional(o.kl); }},
    {.name = "top1",
     .title = "top-1",
     .unit = "share",
     .better = Better::kHigher,
     .value = [](const Measurement& o) { return std::optional(o.top1); }},
    {.name = "gold_nll",
     .title = "gold NLL",
     .unit = "nats a token",
     .value = [](const Measurement& o) { return std::optional(o.gold_nll); }},
    {.name = "gold_nll_gap",
     .title = "gold NLL - full",
     .unit = "nats a token",
     .is_in_table = false,
     .value = gold_nll_gap},
    {.name = "f1",
     .title = "F1",
     .unit = "share",
     .better = Better::kHigher,
     .value = [](const Measurement& o) { return short_answer(o, o.f1); }},
    {.name = "f1_answered",
     .title = "F1 where full answers",
     .unit = "share",
     .better = Better::kHigher,
     .is_in_table = false,
     .value = answered_f1},
    {.name = "exact_match",
     .title = "EM",
     .unit = "share",
     .better = Better::kHigher,
     .is_in_table = false,
     .value = [](const Measurement& o) { return short_answer(o, o.exact_match); }},
    {.name = "rouge_l",
     .title = "ROUGE-L",
     .unit = "share",
     .better = Better::kHigher,
     .value = [](const Measurement& o) { return o.rouge_l; }},
    {.name = "accuracy",
     .title = "accuracy",
     .unit = "share",
     .better = Better::kHigher,
     .value = [](const Measurement& o) { return o.accuracy; }},
    {.name = "ttft_ratio",
     .title = "TTFT ratio",
     .unit = "full / policy",
     .better = Better::kHigher,
     .statistic = Statistic::kMedian,
     .decimals = 2,
     .value = ttft_ratio},
    {.name = "ttft_ms",
     .title = "TTFT ms",
     .unit = "ms",
     .statistic = Statistic::kMedian,
     .decimals = 1,
     .is_in_table = false,
     .value = [](const Measurement& o) { return std::optional(o.ttft_ms); }},
    {.name = "rows_share", .title = "rows / N", .unit = "share", .value = rows_share},
};

}  // namespace

std::vector<Task> tasks() {
  std::vector<Task> out;
  for (const auto make : kTasks) out.push_back(make());
  return out;
}

Task find_task(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Task& task : tasks()) {
    if (task.name == name) return task;
    known.push_back(task.name);
  }
  throw Error(ErrorCode::kInvalidRequest, unknown_name("task", name, known));
}

std::string task_file_name(const Task& task, std::string_view split) {
  constexpr std::string_view kSplit = "SPLIT";
  std::string out(task.file);
  if (const size_t at = out.find(kSplit); at != std::string::npos)
    out.replace(at, kSplit.size(), split);
  return out;
}

std::filesystem::path task_file(const Task& task, const std::filesystem::path& data,
                                std::string_view split) {
  const std::filesystem::path folder = data / task.folder;
  const std::string name = task_file_name(task, split);
  std::error_code error;  // of a path that may not be looked at: reading it says what is wrong
  const bool is_below =
      !std::filesystem::exists(data / name, error) && std::filesystem::is_directory(folder, error);
  return (is_below ? folder : data) / name;
}

std::span<const Metric> metrics() { return kMetrics; }

}  // namespace tessera
