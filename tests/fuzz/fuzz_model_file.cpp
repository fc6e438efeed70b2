// A GGUF file of any bytes is refused by an Error or loads.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "model/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int kFile = memfd_create("model", 0);
  CHECK(kFile >= 0 && ftruncate(kFile, 0) == 0 &&
        pwrite(kFile, data, size, 0) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(kFile);
  try {
    tessera::Model::load(
        path, {.layout = tessera::WeightLayout::kPlain, .n_threads = 1, .profile_dir = {}});
  } catch (const tessera::Error&) {  // the expected end
  }
  return 0;
}
