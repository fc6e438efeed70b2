// One file per chunk, DIR/ab/abcd...: 256 folders keep each small enough for tools that list them.
// The file system is the truth, since other processes may share the folder; the index in memory
// only knows sizes and ages. It is filled when somebody asks for totals, a listing or room under a
// limit, so that opening a folder of many chunks costs nothing.
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "store/blob_file.h"
#include "store/lru_index.h"
#include "store/tier.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFanOutDigits = 2;
constexpr size_t kFanOut = 256;
constexpr std::string_view kLockName = ".lock";

struct ScannedBlob {
  BlobTime time;
  uint64_t bytes = 0;
  ChunkKey key;
};

// What room is made for. Under its key something may lie that it replaces.
struct Newcomer {
  ChunkKey key;
  uint64_t bytes = 0;
  KvKind kind = KvKind::kAnchored;
};

// Blobs of one folder of the fan-out. Files with other names are not ours and are let be.
void scan_folder(const fs::path& folder, std::vector<ScannedBlob>& found) {
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    const std::optional<ChunkKey> key = key_from_hex(name);
    if (!key || name.substr(0, kFanOutDigits) != folder.filename()) continue;
    std::error_code gone;
    if (it->symlink_status(gone).type() != fs::file_type::regular) continue;
    ScannedBlob blob;
    blob.key = *key;
    blob.bytes = it->file_size(gone);
    if (!gone) blob.time = blob_time(it->last_write_time(gone));
    if (!gone) found.push_back(blob);
  }
}

class DiskTier : public Tier {
 public:
  explicit DiskTier(const TierOptions& options)
      : dir_(options.dir), limit_bytes_(options.limit_bytes) {
    const std::lock_guard lock(mutex_);
    is_trusted_ = open_dir();
  }

  std::string_view name() const override { return "disk"; }

  ChunkPtr get(const ChunkKey& key, const KvGeometry& geometry,
               std::span<const int32_t> ids) override {
    BlobRead blob;
    if (is_trusted_) blob = read_blob(path_of(key), {key, geometry, ids});
    const std::lock_guard lock(mutex_);
    switch (blob.outcome) {
      case BlobOutcome::kFound:
        ++counters_.hits;
        use(key, kind_of(blob.chunk->lineage()));
        break;
      case BlobOutcome::kMissing:
        ++counters_.misses;
        if (index_.contains(key)) refresh(key);
        break;
      case BlobOutcome::kCorrupt:
        discard(key);
        break;
      case BlobOutcome::kRefused:
        ++counters_.errors;
        break;
    }
    return blob.chunk;
  }

  bool put(const ChunkKey& key, ChunkPtr chunk) override {
    CHECK(chunk != nullptr);
    const uint64_t bytes = chunk_layout(chunk->geometry(), chunk->n_tokens()).file_bytes;
    const FileDescriptor turn = wait_for_turn();
    if (!reserve({key, bytes, kind_of(chunk->lineage())}, turn)) return false;
    std::string error;
    const bool is_kept = write(key, *chunk, error);
    const std::lock_guard lock(mutex_);
    reserved_bytes_ -= bytes;
    refresh(key);
    if (!is_kept) fail(error);
    return is_kept;
  }

  bool erase(const ChunkKey& key) override {
    const std::lock_guard lock(mutex_);
    std::error_code failed;
    const bool was_there = remove(key, failed);
    if (failed) fail("a chunk cannot be removed: " + failed.message());
    return was_there;
  }

  bool contains(const ChunkKey& key) override {
    struct stat status = {};
    return is_trusted_ && ::lstat(path_of(key).c_str(), &status) == 0 && S_ISREG(status.st_mode);
  }

  // Reads one header per entry, without the lock, so that `visit` may call the tier.
  void for_each(const std::function<bool(const TierEntry&)>& visit) override {
    std::vector<ChunkKey> keys;
    {
      const std::lock_guard lock(mutex_);
      scan_once();
      keys = index_.keys();
    }
    for (const ChunkKey& key : keys) {
      const std::optional<ChunkHeader> header = read_blob_header(path_of(key));
      if (!header || header->key != key) continue;
      if (!visit({key, header->n_tokens, header->file_bytes})) return;
    }
  }

  TierStats stats() override {
    const std::lock_guard lock(mutex_);
    scan_once();
    TierStats stats = counters_;
    stats.entries = index_.size();
    stats.bytes = index_.bytes();
    return stats;
  }

  Verdict verify(const ChunkKey& key) override {
    if (!is_trusted_) return Verdict::kUnknown;
    const BlobOutcome outcome = verify_blob(path_of(key), key);
    const std::lock_guard lock(mutex_);
    switch (outcome) {
      case BlobOutcome::kFound:
        return Verdict::kGood;
      case BlobOutcome::kMissing:
        return Verdict::kGone;
      case BlobOutcome::kCorrupt:
        discard(key);
        return Verdict::kDamaged;
      case BlobOutcome::kRefused:
        break;
    }
    ++counters_.errors;
    return Verdict::kUnknown;
  }

 private:
  fs::path path_of(const ChunkKey& key) const {
    const std::string hex = key.hex();
    return dir_ / hex.substr(0, kFanOutDigits) / hex;
  }

  // Under a limit one put at a time works on the folder, of all threads and processes: the turn is
  // the returned file's lock. Where there are no locks, the index still holds the limit for this
  // process. A folder that refuses here refuses the blob too, which is then told.
  FileDescriptor wait_for_turn() const {
    std::string ignored;
    if (limit_bytes_ == 0 || !is_trusted_ || !try_make_private_dir(dir_, ignored))
      return FileDescriptor();
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    FileDescriptor turn(::open((dir_ / kLockName).c_str(), flags, 0600));
    while (turn.is_open() && ::flock(turn.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    return turn;
  }

  // From here on every method needs mutex_ unless it says otherwise.

  // One line per tier, however often it fails: the counters tell the rest.
  void warn(const std::string& why) {
    if (!has_warned_)
      spdlog::warn("disk cache {}: {}; answers go on without it", dir_.string(), why);
    has_warned_ = true;
  }

  void fail(const std::string& why) {
    ++counters_.errors;
    warn(why);
  }

  // False when blobs of this folder must not be believed: another user could have planted them. A
  // folder that is merely missing or unwritable is no danger; it is tried again at every put.
  bool open_dir() {
    std::string error;
    if (!try_make_private_dir(dir_, error)) {
      fail(error);
      return true;
    }
    struct stat status = {};
    if (::stat(dir_.c_str(), &status) != 0) return true;
    if (status.st_uid != ::geteuid()) {
      fail("the folder belongs to another user");
      return false;
    }
    // Blobs hold token ids, and KV that text can be got back from.
    if ((status.st_mode & 077) != 0 && ::chmod(dir_.c_str(), 0700) != 0) {
      fail("the folder is open to other users and cannot be closed");
      return false;
    }
    return true;
  }

  // The lock file counts the puts under a limit. One that this tier did not make means that the
  // index is out of date. False when the count cannot be written, which would hide our put.
  bool count_put(const FileDescriptor& turn) {
    uint64_t n_puts = 0;
    if (::pread(turn.get(), &n_puts, sizeof(n_puts), 0) != sizeof(n_puts)) n_puts = 0;
    if (n_puts != n_puts_seen_) {
      has_scanned_ = false;
      index_ = LruIndex();
    }
    n_puts_seen_ = n_puts + 1;
    return ::pwrite(turn.get(), &n_puts_seen_, sizeof(n_puts_seen_), 0) == sizeof(n_puts_seen_);
  }

  // A limit may be lower than what an earlier run left, so the scan is followed by an eviction.
  void scan_once() {
    if (has_scanned_ || !is_trusted_) return;
    scan();
    has_scanned_ = true;
    make_room({});
  }

  void scan() {
    std::vector<ScannedBlob> found;
    std::error_code failed;
    for (fs::directory_iterator it(dir_, failed), end; !failed && it != end; it.increment(failed)) {
      const fs::path& folder = it->path();
      const bool is_ours = folder.filename().string().size() == kFanOutDigits;
      std::error_code gone;
      if (!is_ours || it->symlink_status(gone).type() != fs::file_type::directory) continue;
      sweep_temp_files(folder);
      scan_folder(folder, found);
    }
    std::ranges::sort(found, {}, [](const ScannedBlob& blob) { return blob.time.last_use; });
    for (const ScannedBlob& blob : found) index_.set(blob.key, blob.bytes, blob.time.kind);
    is_swept_.set();
  }

  // Clears away what killed writers left in the folder of `key`, once per tier.
  void sweep_once(const ChunkKey& key) {
    const auto folder = std::to_integer<size_t>(key.digest[0]);
    if (is_swept_[folder]) return;
    is_swept_.set(folder);
    sweep_temp_files(path_of(key).parent_path());
  }

  // Makes the index say what the file system says. Whoever changes a file without the lock calls
  // this afterwards, so the last one to do so leaves the index right. Before the scan there is
  // nothing to keep right: the scan will see the file.
  void refresh(const ChunkKey& key) {
    if (!has_scanned_) return;
    struct stat status = {};
    if (::lstat(path_of(key).c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      index_.set(key, static_cast<uint64_t>(status.st_size), blob_kind(status.st_mtim.tv_sec));
    } else {
      index_.erase(key);
    }
  }

  // The file's time carries the order of use over a restart.
  void use(const ChunkKey& key, KvKind kind) {
    set_blob_time(path_of(key), kind);
    if (index_.contains(key)) {
      index_.touch(key, kind);
    } else {
      refresh(key);
    }
  }

  bool remove(const ChunkKey& key, std::error_code& failed) {
    const bool was_there = is_trusted_ && fs::remove(path_of(key), failed);
    if (failed == std::errc::not_a_directory)
      failed.clear();  // the folder is none, so nothing was in it
    refresh(key);
    return was_there;
  }

  void discard(const ChunkKey& key) {
    ++counters_.corrupt;
    std::error_code failed;  // then it is found and counted again, which is all that can be done
    remove(key, failed);
  }

  // Evicts until `bytes` more fit under the limit; false when they cannot. The chunk that is about
  // to be replaced goes first: it and its successor would lie on the disk together for a moment.
  bool make_room(const Newcomer& newcomer) {
    if (limit_bytes_ == 0) return true;
    if (newcomer.bytes > limit_bytes_) return false;
    scan_once();
    while (index_.bytes() + reserved_bytes_ + newcomer.bytes > limit_bytes_) {
      const std::optional<ChunkKey> victim = index_.contains(newcomer.key)
                                                 ? newcomer.key
                                                 : index_.victim(newcomer.bytes, newcomer.kind);
      if (!victim) return false;
      std::error_code failed;
      remove(*victim, failed);
      if (failed) {
        fail("an old chunk cannot be removed: " + failed.message());
        return false;
      }
    }
    return true;
  }

  // Takes the lock. The bytes count against the limit while they are written without it.
  bool reserve(const Newcomer& newcomer, const FileDescriptor& turn) {
    const std::lock_guard lock(mutex_);
    if (!is_trusted_) {
      ++counters_.errors;
      return false;
    }
    if (turn.is_open() && !count_put(turn)) {
      fail(std::string("the lock file cannot be written: ") + std::strerror(errno));
      return false;
    }
    if (!make_room(newcomer)) return false;
    sweep_once(newcomer.key);
    reserved_bytes_ += newcomer.bytes;
    return true;
  }

  // Needs no lock.
  bool write(const ChunkKey& key, const KvChunk& chunk, std::string& error) const {
    const fs::path path = path_of(key);
    return try_make_private_dir(path.parent_path(), error) && write_blob(path, key, chunk, error);
  }

  const fs::path dir_;
  const uint64_t limit_bytes_;
  bool is_trusted_ = false;   // set once, by the constructor
  std::mutex mutex_;          // guards all below
  bool has_scanned_ = false;  // until then index_ is empty
  uint64_t n_puts_seen_ = 0;  // in the lock file
  std::bitset<kFanOut> is_swept_;
  LruIndex index_;
  uint64_t reserved_bytes_ = 0;
  TierStats counters_;
  bool has_warned_ = false;
};

}  // namespace

std::unique_ptr<Tier> make_disk_tier(const TierOptions& options) {
  if (options.dir.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                "a disk cache without a folder - none was given - name one");
  }
  return std::make_unique<DiskTier>(options);
}

}  // namespace tessera
