#include "support/vocabs.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "support/tiny_gguf.h"

namespace tessera {
namespace {

const std::map<std::string, std::string> kRealFiles = {{"real_smollm2", "smollm2-135m.gguf"},
                                                       {"real_qwen2", "qwen2.5-coder-0.5b.gguf"},
                                                       {"real_gemma3", "gemma3-270m.gguf"}};

std::unique_ptr<Tokenizer> load(const std::string& name) {
  const auto real = kRealFiles.find(name);
  if (real == kRealFiles.end()) {
    const TinyModelFile file({.arch = name, .n_layers = 1});
    return std::make_unique<Tokenizer>(file.path());
  }
  const char* folder = std::getenv("TESSERA_TEST_MODELS");
  if (folder == nullptr) return nullptr;
  const std::filesystem::path path = std::filesystem::path(folder) / real->second;
  return std::filesystem::exists(path) ? std::make_unique<Tokenizer>(path) : nullptr;
}

}  // namespace

std::vector<std::string> vocab_names() {
  std::vector<std::string> names = {"llama", "qwen2", "qwen3", "gemma3"};
  for (const auto& [name, file] : kRealFiles) names.push_back(name);
  return names;
}

const Tokenizer* tokenizer_named(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  const auto [it, is_new] = loaded.try_emplace(name);
  if (is_new) it->second = load(name);
  return it->second.get();
}

}  // namespace tessera
