// A GGUF file of any bytes is refused by an Error, or serves: its vocabulary tokenises, its model
// computes a row.
//
// Hardly any random bytes are a GGUF file, so the first byte of the input chooses: what follows is
// the whole file, or a list of edits (offset in two bytes, new byte) to the header of a tiny model.
#include <gguf.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "model/decoder.h"
#include "support/tiny_gguf.h"
#include "text/tokenizer.h"

namespace tessera {
namespace {

constexpr uint64_t kMaxWeightBytes = uint64_t{4} << 20;  // a step of more only tests the memory
constexpr int32_t kSlots = 64;

struct Seed {
  std::vector<std::byte> file;
  size_t header_bytes = 0;  // metadata and tensor table
};

std::vector<Seed> make_seeds() {
  std::vector<Seed> seeds;
  for (const char* arch : {"llama", "qwen2", "qwen3", "gemma3"}) {
    const TinyModelFile model({.arch = arch, .weight_type = "q4_0", .n_layers = 1});
    gguf_context* gguf =
        gguf_init_from_file(model.path().c_str(), {.no_alloc = true, .ctx = nullptr});
    CHECK(gguf != nullptr);
    seeds.push_back({read_file(model.path()).value(), gguf_get_data_offset(gguf)});
    gguf_free(gguf);
  }
  return seeds;
}

std::vector<std::byte> file_of(std::span<const uint8_t> input) {
  static const std::vector<Seed> kSeeds = make_seeds();
  if (input.empty()) return {};
  const size_t choice = input[0] % (kSeeds.size() + 1);
  input = input.subspan(1);
  if (choice == kSeeds.size()) {
    const std::span<const std::byte> bytes = std::as_bytes(input);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> file = kSeeds[choice].file;
  for (; input.size() >= 3; input = input.subspan(3)) {
    const size_t offset = input[0] + size_t{256} * input[1];
    file[offset % kSeeds[choice].header_bytes] = std::byte{input[2]};
  }
  return file;
}

void compute_a_row(const std::shared_ptr<const Model>& model) {
  if (model->weight_bytes() > kMaxWeightBytes) return;
  Decoder decoder(model, 1);
  WorkingKv kv(model->config(), kSlots);
  const int32_t token = 0;  // every vocabulary has one
  const int32_t position = 0;
  const SequenceRows rows = {&kv, {&token, 1}, {&position, 1}};
  StepOptions options;
  options.logit_rows = {0};
  decoder.step({&rows, 1}, options);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);  // what libraries say of broken files
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> bytes = tessera::file_of({data, size});
  static const int kFile = memfd_create("model", 0);
  CHECK(kFile >= 0 && ftruncate(kFile, 0) == 0 &&
        pwrite(kFile, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const std::string path = "/proc/self/fd/" + std::to_string(kFile);
  try {
    tessera::compute_a_row(tessera::Model::load(
        path, {.layout = tessera::WeightLayout::kPlain, .n_threads = 1, .profile_dir = {}}));
  } catch (const tessera::Error&) {  // the expected end
  }
  try {
    const tessera::Tokenizer tokenizer(path);
    tokenizer.decode(
        tokenizer.encode("The Rhine, \xe6\xb2\xb3 <s>", tessera::ControlTokens::kParse));
  } catch (const tessera::Error&) {
  }
  return 0;
}
