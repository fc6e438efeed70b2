// Every task and every metric, in one place. To add a task: write tasks/NAME.cpp, then add its
// declaration and row here. To add a metric: add its row here, and what it reads to Measurement.
#include "eval/registry.h"

#include "base/error.h"
#include "base/text_util.h"

namespace tessera {

Task make_squad();
Task make_hotpotqa();

namespace {

constexpr Task (*kTasks[])() = {make_squad, make_hotpotqa};

double ttft_ratio(const Measurement& o) { return o.full_ttft_ms / o.ttft_ms; }
double rows_share(const Measurement& o) {
  return (o.account.rows() + o.probe_rows) / o.account.total();
}

constexpr Metric kMetrics[] = {
    {.name = "kl",
     .title = "KL",
     .unit = "nats",
     .decimals = 4,
     .value = [](const Measurement& o) { return o.kl; }},
    {.name = "top1",
     .title = "top-1",
     .unit = "share",
     .better = Better::kHigher,
     .value = [](const Measurement& o) { return o.top1; }},
    {.name = "gold_nll",
     .title = "gold NLL",
     .unit = "nats a token",
     .value = [](const Measurement& o) { return o.gold_nll; }},
    {.name = "f1",
     .title = "F1",
     .unit = "share",
     .better = Better::kHigher,
     .value = [](const Measurement& o) { return o.f1; }},
    {.name = "exact_match",
     .title = "EM",
     .unit = "share",
     .better = Better::kHigher,
     .is_in_table = false,
     .value = [](const Measurement& o) { return o.exact_match; }},
    {.name = "ttft_ratio",
     .title = "TTFT ratio",
     .unit = "full / policy",
     .better = Better::kHigher,
     .statistic = Statistic::kMedian,
     .decimals = 2,
     .value = ttft_ratio},
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

std::span<const Metric> metrics() { return kMetrics; }

}  // namespace tessera
