#include "tessera/analyze.h"

#include <fmt/format.h>

#include <array>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text_util.h"
#include "tessera/build_info.h"
#include "tessera/output_file.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array kEndings = {"json", "svg", "png"};

}  // namespace

AnalysisFolder::AnalysisFolder(fs::path dir, std::string_view name)
    : dir_(std::move(dir)), name_(name) {
  if (!is_wanted()) return;
  make_private_dir(dir_);
  const ScratchFolder probe(dir_);
  for (const char* ending : kEndings) {
    std::error_code ignored;
    if (fs::is_directory(fs::symlink_status(file(ending), ignored)))
      refuse_output(file(ending), "it is a folder");
  }
}

fs::path AnalysisFolder::file(std::string_view ending) const {
  return dir_ / fmt::format("{}.{}", name_, ending);
}

void AnalysisFolder::write(const json& report, std::span<const HeatStrip> strips) const {
  write_output(file("json"), report.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  write_output(file("svg"), heatmap_svg(strips));
  write_output(file("png"), heatmap_png(strips));
}

std::string AnalysisFolder::text() const {
  return fmt::format("{0}.json, {0}.svg and {0}.png are in {1}", name_, dir_.string());
}

json analysis_json(const ModelOptions& model, const QuestionOptions& questions,
                   Workspace& workspace, bool is_complete) {
  const BuildInfo build = build_info();
  return {{"version", build.version},
          {"commit", build.commit},
          {"model", model.model.empty() ? StoreSettings().model : model.model},
          {"model_digest", workspace.engine().domain().model_digest},
          {"weight_types", workspace.engine().domain().weight_types},
          {"split", questions.split},
          {"limit", questions.limits.n_samples},
          {"passages", questions.limits.n_passages},
          {"chunk_tokens", questions.chunk_tokens},
          {"complete", is_complete}};
}

json to_json(const Estimate& e) {
  return {{"value", e.value}, {"low", e.low}, {"high", e.high}, {"n", e.n}};
}

std::string cell(const Estimate& e) {
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", e.value, e.low, e.high);
}

std::string heat_title(const std::string& task) {
  return invalid_utf8_offset(task) ? quote(task) : task;
}

}  // namespace tessera
