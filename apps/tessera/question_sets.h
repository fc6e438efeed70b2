#pragma once
// The questions that a command measures on, as its options name them: docs/EVAL.md shows the files.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eval/runner.h"
#include "eval/sample.h"

namespace tessera {

struct QuestionOptions {
  std::vector<std::string> tasks = {};  // of `data`; none: those of its files that have passages
  std::string data = {};
  std::vector<std::string> files = {};      // a task each
  std::vector<std::string> longbench = {};  // files of that form, a task each
  std::string split = "dev";
  ReadLimits limits = {};
  std::string corpus = {};   // file of more passages to retrieve from
  int32_t n_retrieved = 0;   // passages of each question; 0: its own
  int32_t chunk_tokens = 0;  // passages are joined and cut into pieces of so many; 0: as they are

  // Adds --data, --split, --file, --limit, --passages and --chunk-tokens, and the tasks as
  // arguments.
  void add_to(CLI::App& app);
  void add_chunking_to(CLI::App& app);  // --chunk-tokens alone
  // Adds --corpus and --retrieve.
  void add_retrieval_to(CLI::App& app);
};

// Throws Error(kInvalidRequest) in the name of `command` where the options name no questions, or
// do not go together. `tasks_name`: how a user names tasks, with its verb, as in "--tasks names".
void check_questions(std::string_view command, const QuestionOptions& options,
                     std::string_view tasks_name = "tasks name");

// The tasks that are named; where none is, those whose files are in the data folder, without those
// that have no passages of their own unless some are retrieved.
std::vector<std::string> task_names(const QuestionOptions& options);

struct Questions {
  std::vector<EvalSet> sets;
  std::string corpus_digest;  // SHA-256 over the passages of the corpus, hex; empty without one
};

// Tasks, then files, then LongBench files, each once, in their order, with the passages that were
// asked for. Throws Error(kInvalidRequest) where two sets are of one name or have no passages, and
// what reading and retrieving throw.
Questions read_questions(std::string_view command, const QuestionOptions& options);
std::vector<EvalSet> read_sets(std::string_view command, const QuestionOptions& options);

// Puts the passages of each question in the order in which keyword search ranks them for it, those
// that it does not find behind them: the order in which adaptive context adds passages.
void rank_passages(std::vector<EvalSet>& sets);

// SHA-256 over all questions and the names of their sets, hex.
std::string data_digest(const std::vector<EvalSet>& sets);

// The tasks, one a line, for --help.
std::string task_help();

}  // namespace tessera
