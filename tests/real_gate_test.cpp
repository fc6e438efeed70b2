// The gate's absolute checks on real models: they pass what the catalogue has, and fail a file with
// a wrong rotary base, which breaks full prefill and reuse alike. Skipped unless
// TESSERA_TEST_MODELS names a folder with the models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "eval/gate.h"
#include "eval/sample_lines.h"
#include "eval/sample_needle.h"
#include "store/tier.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

fs::path model_path(const std::string& name) {
  const char* folder = std::getenv("TESSERA_TEST_MODELS");
  return folder == nullptr ? fs::path() : fs::path(folder) / (name + ".gguf");
}

// What the command reads, but for the questions.
GateData demo_data() {
  GateData out;
  std::string all;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(TESSERA_DEMO_DIR)) {
    const bool is_text = entry.path().extension() == ".txt" || entry.path().extension() == ".md";
    if (is_text && entry.path().filename() != "README.md") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const std::string text = read_text(file);
    all += text + "\n";
    out.documents.push_back(document_from(file.filename().string(), text));
  }
  out.needles = gate_needles(all);
  return out;
}

// Overwrites the base in the metadata of a GGUF file.
void set_rope_base(const fs::path& file, float base) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  std::string head(1 << 20, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  const std::string key = ".rope.freq_base";
  const size_t at = head.find(key);
  ASSERT_NE(at, std::string::npos);
  uint32_t type = 0;
  std::memcpy(&type, head.data() + at + key.size(), sizeof(type));
  ASSERT_EQ(type, 6U) << "an f32";
  stream.seekp(static_cast<std::streamoff>(at + key.size() + sizeof(type)));
  stream.write(reinterpret_cast<const char*>(&base), sizeof(base));
}

std::vector<GateCheck> reading_of_file(const fs::path& file) {
  const Tokenizer tokenizer(file);
  EngineOptions options;
  options.n_ctx = 2048;
  LoadOptions plain;
  plain.layout = WeightLayout::kPlain;
  Engine engine(Model::load(file, plain), tokenizer, nullptr, options);
  return check_reading(engine, demo_data(), {[](std::string_view) {}, {}});
}

void print(const std::string& label, std::span<const GateCheck> checks) {
  for (const GateCheck& c : checks)
    std::printf("gate %s: %s %.4g (bound %.4g)\n", label.c_str(), c.name.c_str(), c.value, c.bound);
}

struct WrongBase {
  std::string model;
  std::vector<float> bases;
};
void PrintTo(const WrongBase& wrong, std::ostream* out) { *out << wrong.model; }

class RealGateTest : public testing::TestWithParam<WrongBase> {};

TEST_P(RealGateTest, FileWithAWrongRotaryBaseFailsAndTheRightOnePasses) {
  const fs::path file = model_path(GetParam().model);
  if (file.empty() || !fs::exists(file))
    GTEST_SKIP() << "set TESSERA_TEST_MODELS to the folder of the real models";
  const std::vector<GateCheck> right = reading_of_file(file);
  print(GetParam().model, right);
  EXPECT_TRUE(all_passed(right));

  const ScratchFolder folder(fs::temp_directory_path());
  const fs::path broken = folder.path() / "broken.gguf";
  fs::copy_file(file, broken);
  for (const float base : GetParam().bases) {
    ASSERT_NO_FATAL_FAILURE(set_rope_base(broken, base));
    const std::vector<GateCheck> wrong = reading_of_file(broken);
    print(GetParam().model + " at base " + std::to_string(static_cast<int>(base)), wrong);
    EXPECT_FALSE(all_passed(wrong)) << base;
  }
}

INSTANTIATE_TEST_SUITE_P(Real, RealGateTest,
                         testing::Values(WrongBase{"smollm2-135m", {1e4F, 1e6F}},
                                         WrongBase{"qwen2.5-coder-0.5b", {1e4F}},
                                         WrongBase{"gemma3-270m", {}}),
                         [](const auto& tested) {
                           std::string name = tested.param.model;
                           std::erase_if(name, [](char c) {
                             return std::isalnum(static_cast<unsigned char>(c)) == 0;
                           });
                           return name;
                         });

}  // namespace
}  // namespace tessera
