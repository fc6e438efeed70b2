#include "tessera/demo_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tessera/build_info.h"

namespace tessera {

namespace fs = std::filesystem;

fs::path data_folder() {
  const char* given = std::getenv("TESSERA_DATA");
  const fs::path path = given != nullptr ? given : build_info().data_dir;
  if (fs::exists(path / "demo" / "questions.jsonl")) return path;
  throw Error(
      ErrorCode::kNotFound,
      fmt::format(
          "no bundled documents at {} - set TESSERA_DATA to the data folder of the source tree",
          path.string()));
}

std::vector<std::string> demo_documents() {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_folder() / "demo")) {
    const bool is_text = entry.path().extension() == ".txt" || entry.path().extension() == ".md";
    if (is_text && entry.path().filename() != "README.md") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string demo_text() {
  std::string out;
  for (const std::string& file : demo_documents()) {
    const std::optional<std::vector<std::byte>> bytes = read_file(file);
    if (bytes) out.append(reinterpret_cast<const char*>(bytes->data()), bytes->size()).append("\n");
  }
  return out;
}

std::vector<DemoQuestion> demo_questions(size_t n) {
  using nlohmann::json;
  const fs::path file = data_folder() / "demo" / "questions.jsonl";
  std::ifstream in(file);
  std::vector<DemoQuestion> out;
  for (std::string line; out.size() < n && std::getline(in, line);) {
    const json row = json::parse(line);
    if (!row["answerable"].get<bool>()) continue;
    const auto document = row["file"].get<std::string>();
    if (std::ranges::find(out, document, &DemoQuestion::file) != out.end()) continue;
    out.push_back({row["id"].get<std::string>(), row["question"].get<std::string>(),
                   row["answers"].get<std::vector<std::string>>(), document});
  }
  if (out.empty())
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} - holds no question that can be answered - set TESSERA_DATA to the "
                            "data folder of the source tree, or unset it",
                            file.string()));
  return out;
}

}  // namespace tessera
