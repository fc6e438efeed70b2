#pragma once
// How many threads tests give a model.
#include <cstdint>

namespace tessera {

// ggml's threads spin while they wait for each other. The thread sanitizer (gcc says so by this
// macro) watches every look, which takes minutes where there are few cores: a model has one thread
// there.
#ifdef __SANITIZE_THREAD__
inline constexpr int32_t kTestThreads = 1;
#else
inline constexpr int32_t kTestThreads = 2;
#endif

}  // namespace tessera
