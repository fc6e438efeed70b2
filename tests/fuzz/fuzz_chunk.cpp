// Bytes of a chunk at rest: whatever they are, parsing ends in a chunk or a named reject. The
// checksums keep a fuzzer away from what lies behind them, so the head of a right chunk is offered
// with its bytes replaced from the input.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kv/chunk_format.h"

using namespace tessera;  // NOLINT: one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  const KvGeometry geometry = {2, 8};
  const std::vector<int32_t> ids = {1, 2, 3};
  const ChunkKey key = {};
  CHECK((parse_chunk(input, {key, geometry, ids}).chunk != nullptr) ==
        (parse_chunk(input, {key, geometry, ids}).reject == ChunkReject::kNone));

  const KvChunk chunk(geometry, ids, {},
                      std::vector<std::byte>(KvChunk::payload_bytes(geometry, 3)));
  std::vector<std::byte> bytes = serialise_chunk(key, chunk);
  if (size < 2) return 0;
  const size_t at = (data[0] * 256U + data[1]) % bytes.size();
  const size_t n = std::min(size - 2, bytes.size() - at);
  const bool same = std::equal(input.begin() + 2, input.begin() + 2 + static_cast<ptrdiff_t>(n),
                               bytes.begin() + static_cast<ptrdiff_t>(at));
  std::copy_n(input.begin() + 2, n, bytes.begin() + static_cast<ptrdiff_t>(at));
  CHECK(same == (parse_chunk(bytes, {key, geometry, ids}).chunk != nullptr));
  return 0;
}
