#include "tessera/question_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text_util.h"
#include "eval/passage_search.h"
#include "eval/rechunk.h"
#include "eval/registry.h"
#include "eval/sample_lines.h"
#include "eval/sample_longbench.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "documents.db";
constexpr int32_t kLeastChunkTokens = 16;

[[noreturn]] void refuse(std::string_view command, const std::string& what) {
  throw Error(ErrorCode::kInvalidRequest, fmt::format("{} - {}", command, what));
}

bool has_set(const std::vector<EvalSet>& sets, std::string_view name) {
  const auto is_it = [name](const EvalSet& set) { return set.task == name; };
  return std::any_of(sets.begin(), sets.end(), is_it);
}

// In their order.
std::vector<std::string> without_repeats(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
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

// Gives the digest of the corpus.
std::string retrieve(std::vector<EvalSet>& sets, const QuestionOptions& o) {
  std::vector<PassageText> corpus;
  if (!o.corpus.empty()) corpus = parse_passages(read_text(o.corpus), o.corpus);
  const std::string digest = corpus.empty() ? "" : passages_digest(corpus);
  make_private_dir(cache_dir());
  const ScratchFolder folder(cache_dir());
  retrieve_passages(sets, std::move(corpus), o.n_retrieved, folder.path() / kIndexName);
  return digest;
}

void require_passages(std::string_view command, const std::vector<EvalSet>& sets) {
  for (const EvalSet& set : sets) {
    const auto has_none = [](const Sample& sample) { return sample.passages.empty(); };
    if (std::ranges::none_of(set.samples, has_none)) continue;
    refuse(command,
           fmt::format("the questions of {} have no passages - there is no KV to reuse - let "
                       "'tessera eval' find some with --retrieve K, best in a --corpus FILE.jsonl, "
                       "or leave them out",
                       quote(set.task)));
  }
}

}  // namespace

void QuestionOptions::add_to(CLI::App& app) {
  app.add_option("tasks", tasks, task_help());
  app.add_option("--data", data,
                 "Folder with the files of the tasks, or with the folders that they are in");
  app.add_option("--split", split, "Which file of each task")->capture_default_str();
  app.add_option("--file", files, "JSONL file of questions, a task of its own; may be repeated");
  app.add_option("--limit", limits.n_samples, "First questions of each task; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--passages", limits.n_passages,
                 "Most passages of a question, supporting ones first; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_chunking_to(app);
}

void QuestionOptions::add_chunking_to(CLI::App& app) {
  app.add_option("--chunk-tokens", chunk_tokens,
                 "Join a question's passages in their order and cut them anew, into passages of at "
                 "most so many tokens' worth (four bytes a token); 0: as they are")
      ->check(CLI::Range(kLeastChunkTokens, 4096) | CLI::IsMember({0}))
      ->capture_default_str();
}

void QuestionOptions::add_retrieval_to(CLI::App& app) {
  app.add_option("--retrieve", n_retrieved,
                 "Instead of its own, so many passages for each question: the best of keyword "
                 "search over the passages of all questions and of --corpus; 0: its own")
      ->check(CLI::Range(0, 128))
      ->capture_default_str();
  app.add_option("--corpus", corpus,
                 "JSONL file of more passages to retrieve from: {\"title\", \"text\"} a line");
}

void check_questions(std::string_view command, const QuestionOptions& o,
                     std::string_view tasks_name) {
  if (o.data.empty() && o.files.empty() && o.longbench.empty()) {
    refuse(command,
           fmt::format("no questions were given - give --data DIR with files as {}, or --file "
                       "FILE.jsonl; docs/EVAL.md shows their form",
                       task_file_name(tasks().front(), o.split)));
  }
  if (o.data.empty() && !o.tasks.empty()) {
    refuse(command, fmt::format("{} files of the folder --data, which is missing - give it too",
                                tasks_name));
  }
  if (!o.corpus.empty() && o.n_retrieved == 0) {
    refuse(command,
           "--corpus is what passages are retrieved from, and none are - say how many a question "
           "gets with --retrieve K");
  }
  if (o.n_retrieved > 0 && o.limits.n_passages > 0) {
    refuse(command,
           "--passages is of the questions' own passages, which --retrieve replaces - give one of "
           "them");
  }
}

std::vector<std::string> task_names(const QuestionOptions& o) {
  if (!o.tasks.empty() || o.data.empty()) return o.tasks;
  const auto is_taken = [&o](Passages passages) {
    return passages == Passages::kGiven || (passages == Passages::kRetrieved && o.n_retrieved > 0);
  };
  std::vector<std::string> out;
  for (const Task& task : tasks()) {
    std::error_code error;
    if (is_taken(task.passages) && fs::exists(task_file(task, o.data, o.split), error))
      out.emplace_back(task.name);
  }
  // Reading the first then says what is missing.
  if (out.empty()) out.emplace_back(tasks().front().name);
  return out;
}

Questions read_questions(std::string_view command, const QuestionOptions& o) {
  std::vector<EvalSet> sets;
  const auto add = [&](EvalSet set) {
    if (has_set(sets, set.task)) {
      refuse(
          command,
          fmt::format("two sets of questions are named {} - their rows could not be "
                      "told apart - leave one out, name other tasks of --data, or rename a --file",
                      quote(set.task)));
    }
    sets.push_back(std::move(set));
  };
  for (const std::string& name : task_names(o)) {
    if (has_set(sets, name)) continue;
    const Task task = find_task(name);
    if (task.passages == Passages::kOfQuestion && o.n_retrieved > 0) {
      refuse(command, fmt::format("each question of {} is about its own passages, which --retrieve "
                                  "would mix - leave it out, or measure it without --retrieve",
                                  quote(task.name)));
    }
    add({name, task.read(task_file(task, o.data, o.split), o.limits)});
  }
  for (const std::string& file : without_repeats(o.files))
    add({fs::path(file).stem().string(), read_qa_file(file, o.limits)});
  for (const std::string& file : without_repeats(o.longbench))
    add(read_longbench_file(file, o.limits));
  Questions out;
  if (o.n_retrieved > 0) {
    out.corpus_digest = retrieve(sets, o);
  } else {
    require_passages(command, sets);
  }
  if (o.chunk_tokens > 0) {
    for (EvalSet& set : sets) {
      for (Sample& sample : set.samples)
        sample.passages = rechunked(sample.passages, o.chunk_tokens);
    }
  }
  out.sets = std::move(sets);
  return out;
}

std::vector<EvalSet> read_sets(std::string_view command, const QuestionOptions& o) {
  return read_questions(command, o).sets;
}

void rank_passages(std::vector<EvalSet>& sets) {
  make_private_dir(cache_dir());
  const ScratchFolder folder(cache_dir());
  PassageSearch search(folder.path() / kIndexName);
  for (EvalSet& set : sets) {
    for (Sample& sample : set.samples) {
      search.index(sample.passages);
      std::vector<size_t> rank(sample.passages.size(), sample.passages.size());
      size_t place = 0;
      for (const size_t at : search.best(sample.question, static_cast<int32_t>(rank.size())))
        rank[at] = place++;
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
  std::string out =
      "Sets of --data to take; by default those that are there, but for what needs --retrieve and "
      "'needle':";
  for (const Task& task : tasks())
    out += fmt::format("\n{}: {} ({}/{})", task.name, task.summary, task.folder, task.file);
  return out;
}

}  // namespace tessera
