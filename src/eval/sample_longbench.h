#pragma once
// Files of the form of LongBench (Bai et al. 2024), which a user holds: docs/EVAL.md. Pure but for
// the file that one function reads; thread-safe.
#include <filesystem>
#include <string_view>

#include "eval/runner.h"
#include "eval/sample.h"

namespace tessera {

// One question a line: {"input", "context", "answers", "dataset", "_id"}, other members are
// ignored. The set is named by "dataset", the same on every line and one whose answers LongBench
// scores by F1 or ROUGE-L. Passages are what stands behind lines "Passage N:" of the context (and
// before the first one); of a context without such lines, parts of at most 512 tokens' worth, four
// bytes a token. A summary whose input is empty is asked for in words of our own. Throws
// Error(kInvalidRequest) as parse_qa does.
EvalSet parse_longbench(std::string_view text, std::string_view origin, const ReadLimits& limits);

// The same of a file; throws as read_qa_file does.
EvalSet read_longbench_file(const std::filesystem::path& file, const ReadLimits& limits);

}  // namespace tessera
