#include "support/tiny_gguf.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct ContextDeleter {
  void operator()(llama_context* context) const { llama_free(context); }
};

// Logits of the last of 40 tokens, more than the sliding window holds; empty when libllama refuses
// the file.
std::vector<float> logits_of(const std::filesystem::path& path) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const llama_model_params model_params = llama_model_default_params();
  const std::unique_ptr<llama_model, ModelDeleter> model(
      llama_model_load_from_file(path.c_str(), model_params));
  if (model == nullptr) return {};
  llama_context_params context_params = llama_context_default_params();
  context_params.n_ctx = 256;
  context_params.n_threads = context_params.n_threads_batch = 1;
  const std::unique_ptr<llama_context, ContextDeleter> context(
      llama_init_from_model(model.get(), context_params));
  if (context == nullptr) return {};

  std::vector<llama_token> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(10 + 7 * i);
  const llama_batch batch = llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()));
  if (llama_decode(context.get(), batch) != 0) return {};
  const float* logits = llama_get_logits_ith(context.get(), -1);
  return {logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model.get()))};
}

double spread(const std::vector<float>& values) {
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum * sum / (n * n));
}

std::vector<char> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Case {
  const char* name;
  TinySpec spec;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class TinyGguf : public testing::TestWithParam<Case> {};

TEST_P(TinyGguf, LibllamaDecodesItToFiniteVariedLogits) {
  const TinyModelFile file(GetParam().spec);

  const std::vector<float> logits = logits_of(file.path());

  ASSERT_GT(logits.size(), 400U);
  for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
  EXPECT_GT(spread(logits), 0.3);
  EXPECT_LT(spread(logits), 30.0);
}

INSTANTIATE_TEST_SUITE_P(
    All, TinyGguf,
    testing::Values(Case{"llama", {.arch = "llama"}}, Case{"qwen2", {.arch = "qwen2"}},
                    Case{"qwen3", {.arch = "qwen3"}}, Case{"gemma3", {.arch = "gemma3"}},
                    Case{"f32", {.weight_type = "f32"}},
                    Case{"q8_0", {.arch = "gemma3", .weight_type = "q8_0"}},
                    Case{"q4_0", {.weight_type = "q4_0"}}, Case{"q4_1", {.weight_type = "q4_1"}},
                    Case{"q5_0", {.arch = "qwen2", .weight_type = "q5_0"}},
                    Case{"q4_k", {.arch = "qwen3", .weight_type = "q4_k"}},
                    Case{"q6_k", {.arch = "gemma3", .weight_type = "q6_k"}},
                    Case{"rope_freqs", {.rope_freqs = true}},
                    Case{"linear", {.rope_scaling = "linear"}},
                    Case{"yarn", {.arch = "qwen2", .rope_scaling = "yarn"}},
                    Case{"tied", {.arch = "gemma3", .tied_head = true}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(TinyGgufFile, IsTheSameForTheSameSpecAndAnotherForAnotherSeed) {
  const TinyModelFile first({.seed = 3, .n_layers = 1});
  const TinyModelFile again({.seed = 3, .n_layers = 1});
  const TinyModelFile other({.seed = 4, .n_layers = 1});

  EXPECT_EQ(bytes_of(first.path()), bytes_of(again.path()));
  EXPECT_NE(bytes_of(first.path()), bytes_of(other.path()));
}

// Each option must reach the logits, or a test that sets it proves nothing.
TEST(TinyGgufFile, RopeOptionsChangeTheLogits) {
  const std::vector<float> plain = logits_of(TinyModelFile({.n_layers = 2}).path());
  for (const TinySpec& spec : {TinySpec{.n_layers = 2, .rope_freqs = true},
                               TinySpec{.n_layers = 2, .rope_scaling = "linear"},
                               TinySpec{.n_layers = 2, .rope_scaling = "yarn"}}) {
    EXPECT_NE(logits_of(TinyModelFile(spec).path()), plain) << spec.rope_scaling;
  }
}

TEST(TinyGgufFile, SlidingWindowChangesTheLogits) {
  const auto logits = [](int window) {
    return logits_of(TinyModelFile({.arch = "gemma3", .sliding_window = window}).path());
  };

  EXPECT_NE(logits(16), logits(64));
}

TEST(TinyGgufFile, UnknownFamilyAndTypeAreRefused) {
  EXPECT_THROW(TinyModelFile({.arch = "mamba"}), Error);
  EXPECT_THROW(TinyModelFile({.weight_type = "q3_x"}), Error);
}

}  // namespace
}  // namespace tessera
