// Model files that cannot be used: each is refused with a message that names the field, and never
// ends the process.
#include <gguf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "base/error.h"
#include "model/model.h"
#include "support/tiny_gguf.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

LoadOptions options() {
  return {.layout = WeightLayout::kPlain, .n_threads = 1, .profile_dir = {}};
}

// The message of the Error that loading gives, or "" when it loads.
std::string refusal(const std::filesystem::path& path, ErrorCode expected = ErrorCode::kModel) {
  try {
    Model::load(path, options());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  return "";
}

std::string refusal_of(const std::string& arch, const std::function<void(gguf_context*)>& edit) {
  const TinyModelFile file({.arch = arch, .edit_metadata = edit});
  return refusal(file.path());
}

std::vector<char> bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A file beside the model, removed with it.
std::filesystem::path write_beside(const TinyModelFile& file, std::span<const char> bytes) {
  const std::filesystem::path path = file.path().parent_path() / "broken.gguf";
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

TEST(ModelFile, UneditedOnesOfAllFamiliesLoad) {
  for (const char* arch : {"llama", "qwen2", "qwen3", "gemma3"})
    EXPECT_EQ(refusal_of(arch, {}), "") << arch;
}

TEST(ModelFile, UnknownArchitectureNamesTheSupportedOnes) {
  EXPECT_THAT(
      refusal_of("llama",
                 [](gguf_context* g) { gguf_set_val_str(g, "general.architecture", "mamba"); }),
      AllOf(HasSubstr("general.architecture"), HasSubstr("mamba"),
            HasSubstr("gemma3, llama, qwen2, qwen3")));
}

struct BadField {
  const char* arch;
  const char* key;
  std::function<void(gguf_context*)> edit;
};

TEST(ModelFile, EveryBadFieldIsNamed) {
  const BadField cases[] = {
      {"llama", "llama.block_count",
       [](gguf_context* g) { gguf_remove_key(g, "llama.block_count"); }},
      {"llama", "llama.block_count",
       [](gguf_context* g) { gguf_set_val_u32(g, "llama.block_count", 0); }},
      {"llama", "llama.block_count",
       [](gguf_context* g) { gguf_set_val_u32(g, "llama.block_count", UINT32_MAX); }},
      {"llama", "llama.block_count",
       [](gguf_context* g) { gguf_set_val_str(g, "llama.block_count", "4"); }},
      {"llama", "blk.4.attn_norm.weight",
       [](gguf_context* g) { gguf_set_val_u32(g, "llama.block_count", 5); }},
      {"llama", "blk.3", [](gguf_context* g) { gguf_set_val_u32(g, "llama.block_count", 3); }},
      {"llama", "llama.embedding_length",
       [](gguf_context* g) { gguf_set_val_i32(g, "llama.embedding_length", -1); }},
      {"gemma3", "token_embd.weight",
       [](gguf_context* g) { gguf_set_val_u32(g, "gemma3.embedding_length", 512); }},
      {"llama", "llama.attention.head_count",
       [](gguf_context* g) { gguf_set_val_u32(g, "llama.attention.head_count", 0); }},
      {"llama", "head_count_kv",
       [](gguf_context* g) { gguf_set_val_u32(g, "llama.attention.head_count_kv", 3); }},
      {"llama", "layer_norm_rms_epsilon",
       [](gguf_context* g) { gguf_remove_key(g, "llama.attention.layer_norm_rms_epsilon"); }},
      {"llama", "layer_norm_rms_epsilon",
       [](gguf_context* g) { gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", NAN); }},
      {"llama", "layer_norm_rms_epsilon",
       [](gguf_context* g) {
         gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", -1e-5F);
       }},
      {"llama", "rope.freq_base",
       [](gguf_context* g) { gguf_set_val_f64(g, "llama.rope.freq_base", 1e300); }},
      {"llama", "rope.scaling.type",
       [](gguf_context* g) { gguf_set_val_str(g, "llama.rope.scaling.type", "longrope"); }},
      {"llama", "rope.freq_base",
       [](gguf_context* g) { gguf_set_val_f32(g, "llama.rope.freq_base", -1.0F); }},
      {"llama", "rope.dimension_count",
       [](gguf_context* g) { gguf_set_val_u32(g, "llama.rope.dimension_count", 32); }},
      {"llama", "expert_count",
       [](gguf_context* g) { gguf_set_val_u32(g, "llama.expert_count", 8); }},
      {"qwen3", "attention.value_length",
       [](gguf_context* g) { gguf_set_val_u32(g, "qwen3.attention.value_length", 32); }},
      {"gemma3", "sliding_window",
       [](gguf_context* g) { gguf_set_val_i32(g, "gemma3.attention.sliding_window", -5); }},
  };
  for (const BadField& c : cases)
    EXPECT_THAT(refusal_of(c.arch, c.edit), HasSubstr(c.key)) << c.key;
}

TEST(ModelFile, MissingFileIsNotFound) {
  EXPECT_THAT(refusal("/no/such/model.gguf", ErrorCode::kNotFound),
              HasSubstr("/no/such/model.gguf"));
}

TEST(ModelFile, FoldersPipesAndForeignFilesAreRefused) {
  const TinyModelFile file({});
  const std::filesystem::path folder = file.path().parent_path();
  EXPECT_NE(refusal(folder), "");
  const std::filesystem::path pipe = folder / "pipe.gguf";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(refusal(pipe), "");
  for (const std::string content : {"", "G", "GGUF", "PK\x03\x04 a zip file", "# a text file\n"}) {
    EXPECT_NE(refusal(write_beside(file, content)), "") << content;
  }
}

TEST(ModelFile, EveryTruncationIsRefused) {
  const TinyModelFile file({.arch = "qwen2"});
  const std::vector<char> whole = bytes_of(file.path());
  std::vector<size_t> lengths = {whole.size() - 1, whole.size() / 2, whole.size() / 3};
  for (size_t n = 1; n < 4096; n = n * 3 / 2 + 1) lengths.push_back(n);
  for (const size_t n : lengths) {
    EXPECT_NE(refusal(write_beside(file, std::span(whole).first(n))), "")
        << n << " of " << whole.size();
  }
  EXPECT_EQ(refusal(write_beside(file, whole)), "") << "the twin: the whole file loads";
}

// Header fields overwritten by boundary values: an Error or a model, never a crash, and no absurd
// allocation.
TEST(ModelFile, MutatedHeadersNeverCrash) {
  const TinyModelFile file({.arch = "gemma3"});
  const std::vector<char> whole = bytes_of(file.path());
  std::mt19937 random(1);
  int n_refused = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<char> broken = whole;
    const uint64_t values[] = {0, 1, 0xFF, 1ULL << 31, 1ULL << 32, 1ULL << 63, UINT64_MAX};
    const uint64_t value = values[random() % std::size(values)];
    const size_t width = size_t{1} << (random() % 4);
    // The first bytes hold the counts; then keys and the tensor table follow.
    const size_t at = i < 60 ? random() % 32 : random() % 20000;
    std::memcpy(broken.data() + at, &value, width);
    n_refused += refusal(write_beside(file, broken)).empty() ? 0 : 1;
  }
  EXPECT_GT(n_refused, 30);
}

TEST(ModelFile, DescribeGivesTheFactsOfTheFile) {
  const TinyModelFile file({.arch = "gemma3"});
  EXPECT_THAT(describe_gguf(file.path()), AllOf(HasSubstr("architecture: gemma3"),
                                                HasSubstr("layers: 7"), HasSubstr("half-split")));
}

}  // namespace
}  // namespace tessera
