#include "tessera/question_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text_util.h"
#include "eval/registry.h"
#include "retrieval/document_store.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string_view command, const std::string& what) {
  throw Error(ErrorCode::kInvalidRequest, fmt::format("{} - {}", command, what));
}

bool has_set(const std::vector<EvalSet>& sets, std::string_view name) {
  const auto is_it = [name](const EvalSet& set) { return set.task == name; };
  return std::any_of(sets.begin(), sets.end(), is_it);
}

// By rank, of equals as they stood.
std::vector<PassageText> in_order(std::vector<PassageText> passages,
                                  const std::vector<size_t>& rank) {
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < rank.size(); ++i) order.emplace_back(rank[i], i);
  std::sort(order.begin(), order.end());
  std::vector<PassageText> out;
  out.reserve(order.size());
  for (const auto& [of_rank, i] : order) out.push_back(std::move(passages[i]));
  return out;
}

}  // namespace

void QuestionOptions::add_to(CLI::App& app) {
  app.add_option("tasks", tasks, task_help());
  app.add_option("--data", data, "Folder with the files of the tasks");
  app.add_option("--split", split, "Which file of each task: STEM.SPLIT.jsonl")
      ->capture_default_str();
  app.add_option("--file", files, "JSONL file of questions, a task of its own; may be repeated");
  app.add_option("--limit", limits.n_samples, "First questions of each task; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--passages", limits.n_passages,
                 "Most passages of a question, supporting ones first; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void check_questions(std::string_view command, const QuestionOptions& o,
                     std::string_view tasks_name) {
  if (o.data.empty() && o.files.empty()) {
    refuse(command,
           fmt::format("no questions were given - give --data DIR with files as {}.{}.jsonl, or "
                       "--file FILE.jsonl; docs/EVAL.md shows their form",
                       tasks().front().file_stem, o.split));
  }
  if (o.data.empty() && !o.tasks.empty()) {
    refuse(command, fmt::format("{} files of the folder --data, which is missing - give it too",
                                tasks_name));
  }
}

std::vector<EvalSet> read_sets(std::string_view command, const QuestionOptions& o) {
  std::vector<std::string> names = o.tasks;
  if (names.empty() && !o.data.empty()) {
    for (const Task& task : tasks()) names.emplace_back(task.name);
  }
  std::vector<EvalSet> sets;
  for (const std::string& name : names) {
    if (has_set(sets, name)) continue;
    const Task task = find_task(name);
    const fs::path file = fs::path(o.data) / fmt::format("{}.{}.jsonl", task.file_stem, o.split);
    sets.push_back({name, task.read(file, o.limits)});
  }
  for (const std::string& file : o.files) {
    const std::string name = fs::path(file).stem().string();
    std::vector<Sample> samples = read_qa_file(file, o.limits);
    if (has_set(sets, name)) {
      refuse(command, fmt::format("two sets of questions are named {} - their rows could not be "
                                  "told apart - rename a file",
                                  quote(name)));
    }
    sets.push_back({name, std::move(samples)});
  }
  return sets;
}

void rank_passages(std::vector<EvalSet>& sets) {
  make_private_dir(cache_dir());
  const ScratchFolder folder(cache_dir());
  DocumentStore index(folder.path() / "documents.db");
  for (EvalSet& set : sets) {
    for (Sample& sample : set.samples) {
      std::vector<Passage> passages;
      passages.reserve(sample.passages.size());
      for (const PassageText& p : sample.passages) passages.push_back({p.title, p.text, 0, 0});
      const std::vector<int64_t> ids = index.add_document({"passages", "", 0}, passages);
      std::vector<size_t> rank(ids.size(), ids.size());
      size_t place = 0;
      for (const SearchHit& hit : index.search(sample.question, static_cast<int32_t>(ids.size())))
        rank[static_cast<size_t>(std::find(ids.begin(), ids.end(), hit.passage.id) - ids.begin())] =
            place++;
      sample.passages = in_order(std::move(sample.passages), rank);
    }
  }
}

std::string data_digest(const std::vector<EvalSet>& sets) {
  Sha256 hash;
  for (const EvalSet& set : sets) {
    hash.field("task", set.task);
    for (const Sample& sample : set.samples) hash.field("sample", sample_digest(sample));
  }
  return to_hex(hash.digest());
}

std::string task_help() {
  std::string out = "Sets of --data to take, by default all:";
  for (const Task& task : tasks())
    out += fmt::format("\n{}: {} ({}.SPLIT.jsonl)", task.name, task.summary, task.file_stem);
  return out;
}

}  // namespace tessera
