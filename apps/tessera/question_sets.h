#pragma once
// The questions that a command measures on, as its options name them: docs/EVAL.md shows the files.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "eval/runner.h"
#include "eval/sample.h"

namespace tessera {

struct QuestionOptions {
  std::vector<std::string> tasks = {};  // of `data`; none: all of them
  std::string data = {};
  std::vector<std::string> files = {};  // a task each
  std::string split = "dev";
  ReadLimits limits = {};

  // Adds --data, --split, --file, --limit and --passages, and the tasks as arguments.
  void add_to(CLI::App& app);
};

// Throws Error(kInvalidRequest) in the name of `command` where the options name no questions.
// `tasks_name`: how a user names tasks, with its verb, as in "--tasks names".
void check_questions(std::string_view command, const QuestionOptions& options,
                     std::string_view tasks_name = "tasks name");

// Tasks before files, each once, in their order. Throws Error(kInvalidRequest) where two files are
// of one name, and what reading them throws.
std::vector<EvalSet> read_sets(std::string_view command, const QuestionOptions& options);

// Puts the passages of each question in the order in which keyword search ranks them for it, those
// that it does not find behind them: the order in which adaptive context adds passages.
void rank_passages(std::vector<EvalSet>& sets);

// SHA-256 over all questions and the names of their sets, hex.
std::string data_digest(const std::vector<EvalSet>& sets);

// The tasks, one a line, for --help.
std::string task_help();

}  // namespace tessera
