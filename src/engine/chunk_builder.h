#pragma once
// Makes the stored KV of passages: each chunk computed behind its anchor, whose own KV is then
// dropped. Not thread-safe: it uses the decoder it was given.
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/front_kv.h"
#include "kv/chunk.h"
#include "model/decoder.h"
#include "store/chunk_store.h"

namespace tessera {

struct Anchor {
  AnchorKind kind = AnchorKind::kPreamble;
  std::vector<int32_t> ids;  // what stands before the chunk while it is computed; empty for kBare
};

class ChunkBuilder {
 public:
  enum class Outcome {
    kPresent,
    kBuilt,
    kNotStored
  };  // kNotStored: no room, or KV that f16 cannot hold

  // All references must outlive the object. `kv` is used as scratch: its content is lost.
  ChunkBuilder(Decoder& decoder, WorkingKv& kv, ChunkStore& store, const KvDomain& domain);

  // The anchored blob of one chunk, unless the store already has it.
  // Throws Error(kInvalidRequest) when anchor and chunk do not fit into the context,
  // Error(kCancelled).
  Outcome build(const Anchor& anchor, std::span<const int32_t> ids,
                const std::stop_token& stop = {});

  // The exact blob of a prompt's preamble (behind nothing).
  Outcome build_preamble(std::span<const int32_t> ids, const std::stop_token& stop = {});

  // Rows that went through the model so far, anchors included: what indexing costs.
  int64_t rows_computed() const { return rows_computed_; }

 private:
  Outcome store_chunk(const KeyContext& context, std::span<const int32_t> ids,
                      const std::stop_token& stop);

  Decoder& decoder_;
  WorkingKv& kv_;
  ChunkStore& store_;
  const KvDomain& domain_;
  FrontKv front_;
  int64_t rows_computed_ = 0;
};

}  // namespace tessera
