#include "bench/trace_rig.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "eval/sample_lines.h"
#include "kv/chunk_format.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TraceData read_data(const TraceOptions& o) {
  TraceData data;
  for (const fs::path& file : o.question_files) add_questions(read_text(file), file.string(), data);
  if (!o.corpus_file.empty()) add_passages(read_text(o.corpus_file), o.corpus_file.string(), data);
  return data;
}

// A disk tier keeps each blob in a folder that its name begins with.
fs::path blob_path(const fs::path& folder, const ChunkKey& key) {
  const std::string name = key.hex();
  return folder / name.substr(0, 2) / name;
}

void require_copied(const std::error_code& error, const fs::path& from, const fs::path& to) {
  if (!error) return;
  throw Error(ErrorCode::kIo,
              fmt::format("cannot copy {} to {} - {} - make room, or choose another folder",
                          from.string(), to.string(), error.message()));
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
  require_copied(error, from, to);
}

void copy_with_time(const fs::path& from, const fs::path& to, fs::file_time_type used) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (!error) fs::last_write_time(to, used, error);
  require_copied(error, from, to);
}

// A file's time says when it was last used, by which a limit evicts. Links share it, so they serve
// only where nothing is evicted.
void give_blobs(const StoredBlobs& blobs, const fs::path& to, bool has_limit) {
  make_private_dir(to);
  const auto now = fs::file_time_type::clock::now();
  for (size_t i = 0; i < blobs.keys.size(); ++i) {
    const fs::path from = blob_path(blobs.folder, blobs.keys[i]);
    const fs::path target = blob_path(to, blobs.keys[i]);
    if (fs::exists(target)) continue;  // two passages of the same tokens
    make_private_dir(target.parent_path());
    if (has_limit) {
      copy_with_time(from, target, now - std::chrono::seconds(blobs.keys.size() - i));
    } else {
      link_or_copy(from, target);
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

TraceStore open_trace_store(const fs::path& work_dir, const StoredBlobs& blobs,
                            const StoreLimits& limits) {
  TraceStore out;
  out.folder = std::make_unique<ScratchFolder>(work_dir);
  const fs::path kv = out.folder->path() / "kv";
  if (!blobs.folder.empty()) give_blobs(blobs, kv, limits.disk_bytes > 0);
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
      tokenizer_(std::make_unique<Tokenizer>(options.model_path)) {
  engine_options_.n_ctx = o_.n_ctx;
  engine_options_.n_threads = o_.n_threads;
  engine_options_.sink_layer = o_.sink_layer;
  engine_options_.name_space = "trace";
  engine_options_.model_digest = o_.model_digest;
  plain_ = std::make_unique<Engine>(model_, *tokenizer_, nullptr, engine_options_);

  search_ = std::make_unique<PassageSearch>(o_.work_dir / "documents.db");
  search_->index(data_.passages);
  if (o_.note && data_.n_dropped > 0)
    o_.note(fmt::format("{} questions are left out: others have the same text", data_.n_dropped));
}

std::unique_ptr<Engine> TraceRig::engine(ChunkStore& store) const {
  return std::make_unique<Engine>(model_, *tokenizer_, &store, engine_options_);
}

// Novel lists are whole ones: those of few passages soon have no order left.
std::vector<size_t> TraceRig::questions_to_ask(int32_t top_k) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < data_.questions.size(); ++i) {
    if (!o_.is_novel ||
        search_->best(data_.questions[i].question, top_k).size() == static_cast<size_t>(top_k))
      out.push_back(i);
  }
  if (o_.note && out.size() < data_.questions.size()) {
    o_.note(
        fmt::format("top-{}: {} of {} questions are asked: for the others fewer passages are found",
                    top_k, out.size(), data_.questions.size()));
  }
  return out;
}

std::vector<TraceRequest> TraceRig::requests(size_t n_requests, int32_t top_k,
                                             size_t& n_shuffled) const {
  const std::vector<size_t> asked = questions_to_ask(top_k);
  std::vector<TraceQuestion> questions;
  questions.reserve(asked.size());
  for (const size_t i : asked) questions.push_back(data_.questions[i]);
  std::vector<TraceRequest> out;
  std::vector<PassageList> lists;
  for (const size_t drawn : draw_stream(questions, n_requests, o_.stream)) {
    const Stopwatch watch;
    lists.push_back(search_->best(questions[drawn].question, top_k));
    out.push_back({asked[drawn], {}, watch.ms()});
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
    const double bytes = o_.store_share * static_cast<double>(corpus);
    out.disk_bytes = std::max<uint64_t>(1, static_cast<uint64_t>(bytes));
  }
  if (out.disk_bytes == 0) return out;
  if (out.ram_bytes >= out.disk_bytes) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("--ram-tier {} - the whole store holds {} bytes, RAM and disk together "
                            "- give less, or a greater --store-limit or --store-share",
                            out.ram_bytes, out.disk_bytes));
  }
  out.disk_bytes -= out.ram_bytes;
  return out;
}

const StoredBlobs& TraceRig::warm_blobs() {
  if (!warm_.folder.empty()) return warm_;
  const fs::path folder = o_.warm_dir.empty() ? o_.work_dir / "warm" : o_.warm_dir;
  make_private_dir(folder);  // one that cannot be used is no fault to go on after
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(make_tier("disk", {.dir = folder, .limit_bytes = 0}));
  ChunkStore store(std::move(tiers));
  const std::unique_ptr<Engine> own = engine(store);
  ChunkBuilder builder = own->builder();
  const Anchor& anchor = own->anchor(o_.anchor);
  StoredBlobs out;
  const std::span<const std::vector<int32_t>> chunks = chunk_ids();
  for (size_t i = 0; i < chunks.size(); ++i) {
    constexpr size_t kNoteEvery = 50;
    if (o_.note && i % kNoteEvery == 0)
      o_.note(fmt::format("{}: indexing passage {} of {}", o_.model_name, i + 1, chunks.size()));
    require_stored(builder.build(anchor, chunks[i], o_.stop), folder);
    out.keys.push_back(
        key_of(own->domain(), {Match::kIndependent, anchor.kind, anchor.ids, {}}, chunks[i]));
  }
  // Every request uses the preamble, so it is never the longest unused.
  const std::vector<int32_t>& preamble = own->prompts().preamble_ids();
  require_stored(builder.build_preamble(preamble, o_.stop), folder);
  out.keys.push_back(key_of(own->domain(), {.match = Match::kExact}, preamble));
  for (const ChunkKey& key : out.keys) read_file(blob_path(folder, key));
  out.folder = folder;
  warm_ = std::move(out);
  return warm_;
}

}  // namespace tessera
