#pragma once
// What all runs of a trace share: the model, the corpus and its keyword index, the KV of the
// corpus, and stores that begin with it. Not thread-safe.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "bench/trace.h"
#include "engine/engine.h"
#include "eval/passage_search.h"
#include "store/chunk_store.h"

namespace tessera {

struct TraceRequest {
  size_t question = 0;
  PassageList passages;
  double retrieve_ms = 0;
};

struct StoreLimits {
  uint64_t disk_bytes = 0;  // 0: no limit
  uint64_t ram_bytes = 0;   // 0: no RAM tier
};

// A folder of a disk tier, with those of its chunks that a run is about, longest unused first.
struct StoredBlobs {
  std::filesystem::path folder;  // empty: there are none
  std::vector<ChunkKey> keys;
};

// A store in a folder that goes with it.
struct TraceStore {
  std::unique_ptr<ScratchFolder> folder;
  std::unique_ptr<ChunkStore> chunks;
};
// The store begins with `blobs`, of which it keeps the last ones that its limit allows. Throws
// Error(kIo).
TraceStore open_trace_store(const std::filesystem::path& work_dir, const StoredBlobs& blobs,
                            const StoreLimits& limits);

class TraceRig {
 public:
  // `options` must outlive the object. Throws what bench_trace throws.
  explicit TraceRig(const TraceOptions& options);

  const TraceData& data() const { return data_; }
  // Without a store.
  Engine& plain() { return *plain_; }
  // `store` must outlive it.
  std::unique_ptr<Engine> engine(ChunkStore& store) const;

  // The stream, each question with its `top_k` best passages. Of two numbers of requests the
  // smaller gives the beginning of the larger. `n_shuffled` gets how many lists were reordered to
  // be novel.
  std::vector<TraceRequest> requests(size_t n_requests, int32_t top_k, size_t& n_shuffled) const;

  // The `top_k` best passages of a question.
  PassageList retrieve(size_t question, int32_t top_k) const {
    return search_->best(data_.questions[question].question, top_k);
  }

  // Ids of each passage as a chunk.
  std::span<const std::vector<int32_t>> chunk_ids();
  // Bytes on disk of the whole corpus in this geometry.
  uint64_t corpus_bytes(const KvGeometry& geometry);
  // RAM and disk together hold what was asked for. Throws Error(kInvalidRequest) where RAM alone is
  // to hold as much.
  StoreLimits limits();

  // The anchored KV of every passage in order, and of the preamble, made when it is first asked for
  // and read once, so that no request is the first to read it.
  const StoredBlobs& warm_blobs();

 private:
  std::vector<size_t> questions_to_ask(int32_t top_k) const;

  const TraceOptions& o_;
  TraceData data_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  EngineOptions engine_options_;
  std::unique_ptr<Engine> plain_;
  std::unique_ptr<PassageSearch> search_;
  std::vector<std::vector<int32_t>> chunk_ids_;
  StoredBlobs warm_;
};

}  // namespace tessera
