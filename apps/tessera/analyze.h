#pragma once
// What the kinds of `tessera analyze` share.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "eval/heatmap.h"
#include "eval/statistics.h"
#include "tessera/command.h"
#include "tessera/question_sets.h"
#include "tessera/workspace.h"

namespace tessera {

// The kinds that stand in files of their own.
void add_analyze_deviation(CLI::App& analyze, Session& session);
void add_analyze_overlap(CLI::App& analyze, Session& session);
void add_analyze_popularity(CLI::App& analyze, Session& session);

// What --out takes: NAME.json, NAME.svg and NAME.png. Not thread-safe.
class AnalysisFolder {
 public:
  // `dir` empty: none is wanted. Else it is made and tried, since a folder that cannot be written
  // to must not cost the run: throws Error(kIo).
  AnalysisFolder(std::filesystem::path dir, std::string_view name);

  bool is_wanted() const { return !dir_.empty(); }
  // Throws Error(kIo) where a file cannot be written.
  void write(const nlohmann::json& report, std::span<const HeatStrip> strips) const;
  std::string text() const;  // what is where, for a note

 private:
  std::filesystem::path file(std::string_view ending) const;

  std::filesystem::path dir_;
  std::string name_;
};

// What the object of every kind begins with: build, model and questions.
nlohmann::json analysis_json(const ModelOptions& model, const QuestionOptions& questions,
                             Workspace& workspace, bool is_complete);

nlohmann::json to_json(const Estimate& estimate);  // value, low, high and n
std::string cell(const Estimate& estimate);        // "0.123 [0.100, 0.150]"
std::string heat_title(const std::string& task);   // UTF-8 also for a file's name that is not

}  // namespace tessera
