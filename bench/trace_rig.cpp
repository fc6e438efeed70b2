#include "bench/trace_rig.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "kv/chunk_format.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  const std::optional<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("cannot read {} - there is no such file, or it may not be read - name a "
                    "JSONL file",
                    file.string()));
  }
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (text.starts_with("\x1f\x8b")) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("{} is compressed - only plain text is read - unpack it with gunzip",
                            file.string()));
  }
  return text;
}

TraceData read_data(const TraceOptions& o) {
  TraceData data;
  for (const fs::path& file : o.question_files) add_questions(text_of(file), file.string(), data);
  if (!o.corpus_file.empty()) add_passages(text_of(o.corpus_file), o.corpus_file.string(), data);
  return data;
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
  if (error) {
    throw Error(ErrorCode::kIo,
                fmt::format("cannot copy {} to {} - {} - make room, or choose another folder",
                            from.string(), to.string(), error.message()));
  }
}

// A disk tier keeps each blob in a folder that its name begins with.
void link_blobs(const fs::path& from, const fs::path& to) {
  make_private_dir(to);
  std::error_code error;
  for (const fs::directory_entry& folder : fs::directory_iterator(from, error)) {
    if (!folder.is_directory()) continue;
    const fs::path target = to / folder.path().filename();
    make_private_dir(target);
    for (const fs::directory_entry& blob : fs::directory_iterator(folder.path())) {
      if (key_from_hex(blob.path().filename().string()))
        link_or_copy(blob.path(), target / blob.path().filename());
    }
  }
}

void require_stored(ChunkBuilder::Outcome outcome, const fs::path& folder) {
  if (outcome != ChunkBuilder::Outcome::kNotStored) return;
  throw Error(
      ErrorCode::kIo,
      fmt::format("the KV of a passage cannot be stored in {} - the disk may be full - make "
                  "room, or choose another folder",
                  folder.string()));
}

}  // namespace

TraceStore open_trace_store(const fs::path& work_dir, const fs::path& blobs,
                            const StoreLimits& limits) {
  TraceStore out;
  out.folder = std::make_unique<ScratchFolder>(work_dir);
  const fs::path kv = out.folder->path() / "kv";
  if (!blobs.empty()) link_blobs(blobs, kv);
  std::vector<std::unique_ptr<Tier>> tiers;
  if (limits.ram_bytes > 0)
    tiers.push_back(make_tier("ram", {.dir = {}, .limit_bytes = limits.ram_bytes}));
  tiers.push_back(make_tier("disk", {.dir = kv, .limit_bytes = limits.disk_bytes}));
  // Before the first request, so that none pays for the scan and the limit holds from the start.
  tiers.back()->stats();
  out.chunks = std::make_unique<ChunkStore>(
      std::move(tiers), std::make_unique<VariantIndex>(out.folder->path() / "variants.db"));
  return out;
}

TraceRig::TraceRig(const TraceOptions& options)
    : o_(options),
      data_(read_data(options)),
      model_(Model::load(options.model_path, options.load)),
      tokenizer_(std::make_unique<Tokenizer>(options.model_path)),
      warm_dir_(options.warm_dir.empty() ? options.work_dir / "warm" : options.warm_dir) {
  engine_options_.n_ctx = o_.n_ctx;
  engine_options_.n_threads = o_.n_threads;
  engine_options_.leadin_tokens = o_.leadin_tokens;
  engine_options_.sink_layer = o_.sink_layer;
  engine_options_.name_space = "trace";
  engine_options_.model_digest = o_.model_digest;
  plain_ = std::make_unique<Engine>(model_, *tokenizer_, nullptr, engine_options_);

  std::vector<Passage> passages;
  passages.reserve(data_.passages.size());
  for (const PassageText& p : data_.passages) passages.push_back({p.title, p.text, 0, 0});
  documents_ = std::make_unique<DocumentStore>(o_.work_dir / "documents.db");
  passage_ids_ = documents_->add_document({"trace", "", 0}, passages);
}

std::unique_ptr<Engine> TraceRig::engine(ChunkStore& store) const {
  return std::make_unique<Engine>(model_, *tokenizer_, &store, engine_options_);
}

std::vector<TraceRequest> TraceRig::requests(size_t n_requests, int32_t top_k,
                                             size_t& n_shuffled) const {
  std::vector<TraceRequest> out;
  std::vector<PassageList> lists;
  for (const size_t question : draw_stream(data_.questions, n_requests, o_.stream)) {
    const Stopwatch watch;
    const std::vector<SearchHit> hits =
        documents_->search(data_.questions[question].question, top_k);
    out.push_back({question, {}, watch.ms()});
    PassageList& list = lists.emplace_back();
    for (const SearchHit& hit : hits) {
      const auto at = std::lower_bound(passage_ids_.begin(), passage_ids_.end(), hit.passage.id);
      list.push_back(static_cast<size_t>(at - passage_ids_.begin()));
    }
  }
  n_shuffled = o_.is_novel ? make_novel(lists, o_.stream.seed) : 0;
  for (size_t i = 0; i < out.size(); ++i) out[i].passages = std::move(lists[i]);
  return out;
}

std::span<const std::vector<int32_t>> TraceRig::chunk_ids() {
  if (chunk_ids_.empty()) {
    chunk_ids_.reserve(data_.passages.size());
    for (const PassageText& p : data_.passages)
      chunk_ids_.push_back(plain_->prompts().chunk_ids(p.title, p.text));
  }
  return chunk_ids_;
}

uint64_t TraceRig::corpus_bytes(const KvGeometry& geometry) {
  uint64_t bytes = 0;
  for (const std::vector<int32_t>& ids : chunk_ids())
    bytes += chunk_layout(geometry, static_cast<int32_t>(ids.size())).file_bytes;
  return bytes;
}

StoreLimits TraceRig::limits() {
  StoreLimits out = {o_.store_limit_bytes, o_.ram_limit_bytes};
  if (o_.store_share > 0) {
    const uint64_t corpus = corpus_bytes(plain_->domain().geometry);
    out.disk_bytes = static_cast<uint64_t>(o_.store_share * static_cast<double>(corpus));
  }
  if (out.disk_bytes > 0) out.ram_bytes = std::min(out.ram_bytes, out.disk_bytes);
  return out;
}

const fs::path& TraceRig::warm_blobs() {
  if (is_warm_) return warm_dir_;
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(make_tier("disk", {.dir = warm_dir_, .limit_bytes = 0}));
  ChunkStore store(std::move(tiers));
  const std::unique_ptr<Engine> own = engine(store);
  ChunkBuilder builder = own->builder();
  const Anchor& anchor = own->anchor(o_.anchor);
  require_stored(builder.build_preamble(own->prompts().preamble_ids(), o_.stop), warm_dir_);
  const std::span<const std::vector<int32_t>> chunks = chunk_ids();
  for (size_t i = 0; i < chunks.size(); ++i) {
    constexpr size_t kNoteEvery = 50;
    if (o_.note && i % kNoteEvery == 0)
      o_.note(fmt::format("{}: indexing passage {} of {}", o_.model_name, i + 1, chunks.size()));
    require_stored(builder.build(anchor, chunks[i], o_.stop), warm_dir_);
  }
  is_warm_ = true;
  return warm_dir_;
}

}  // namespace tessera
