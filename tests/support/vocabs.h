#pragma once
// The tokenizers that text tests run over: one tiny vocabulary per family, and the real ones where
// TESSERA_TEST_MODELS names a folder that holds them.
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tessera {

// "llama", "qwen2", "qwen3", "gemma3", and "real_..." for the real ones.
std::vector<std::string> vocab_names();

// Loaded once per process; null when it is a real one that is not there.
const Tokenizer* tokenizer_named(const std::string& name);

}  // namespace tessera
