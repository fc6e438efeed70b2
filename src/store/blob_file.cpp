#include "store/blob_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/hash.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargePageBytes = size_t(2) << 20;
constexpr std::chrono::seconds kInContextLag(int64_t{1} << 30);

struct OpenBlob {
  BlobOutcome outcome = BlobOutcome::kMissing;
  FileDescriptor file;
  uint64_t file_bytes = 0;
};

BlobOutcome outcome_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return BlobOutcome::kMissing;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return BlobOutcome::kRefused;
    default:
      return BlobOutcome::kCorrupt;
  }
}

// O_NONBLOCK keeps a pipe that somebody planted under the name of a blob from holding the request
// up.
OpenBlob open_blob(const fs::path& path) {
  OpenBlob blob;
  blob.file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (!blob.file.is_open() || ::fstat(blob.file.get(), &status) != 0) {
    blob.outcome = outcome_of(errno);
    return blob;
  }
  const bool is_ours = S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
  blob.outcome = is_ours ? BlobOutcome::kFound : BlobOutcome::kCorrupt;
  blob.file_bytes = static_cast<uint64_t>(status.st_size);
  return blob;
}

// False on an error and when the file ends too soon.
bool read_exactly(int fd, std::span<std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

// Fresh memory costs one fault a page, which takes longer than reading a warm file into it. Only a
// hint: where the system has no large pages everything works as before.
void ask_for_large_pages(std::byte* data, size_t n_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const size_t skipped = (kLargePageBytes - address % kLargePageBytes) % kLargePageBytes;
  if (n_bytes < skipped + kLargePageBytes) return;
  ::madvise(data + skipped, (n_bytes - skipped) / kLargePageBytes * kLargePageBytes, MADV_HUGEPAGE);
}

// Empty when a layer cannot be read or fails its checksum. Growing by one layer keeps the zeros
// that resize writes, the read over them and the checksum within the processor's cache, so memory
// is written once.
std::vector<std::byte> read_payload(int fd, const ChunkLayout& layout, const CheckedHead& head) {
  std::vector<std::byte> payload;
  payload.reserve(layout.file_bytes - layout.payload_offset);
  ask_for_large_pages(payload.data(), payload.capacity());
  for (const uint64_t sum : head.layer_sums) {
    const size_t begin = payload.size();
    payload.resize(begin + layout.layer_bytes);
    const std::span<std::byte> layer = std::span(payload).subspan(begin);
    if (!read_exactly(fd, layer, layout.payload_offset + begin) || xxh3_64(layer) != sum) return {};
  }
  return payload;
}

BlobRead read_checked(const fs::path& path, const ExpectedChunk& expected) {
  const OpenBlob blob = open_blob(path);
  if (blob.outcome != BlobOutcome::kFound) return {blob.outcome, nullptr, 0};
  const ChunkLayout layout =
      chunk_layout(expected.geometry, static_cast<int32_t>(expected.ids.size()));
  std::vector<std::byte> bytes(std::min<uint64_t>(blob.file_bytes, layout.payload_offset));
  if (!read_exactly(blob.file.get(), bytes, 0))
    return {BlobOutcome::kCorrupt, nullptr, blob.file_bytes};
  const CheckedHead head = check_head(bytes, blob.file_bytes, expected);
  if (head.reject != ChunkReject::kNone) return {BlobOutcome::kCorrupt, nullptr, blob.file_bytes};
  std::vector<std::byte> payload = read_payload(blob.file.get(), layout, head);
  if (payload.size() != layout.file_bytes - layout.payload_offset)
    return {BlobOutcome::kCorrupt, nullptr, blob.file_bytes};
  std::vector<int32_t> ids(expected.ids.begin(), expected.ids.end());
  return {BlobOutcome::kFound,
          std::make_shared<const KvChunk>(expected.geometry, std::move(ids), head.lineage,
                                          std::move(payload)),
          blob.file_bytes};
}

// Nothing when the header is not valid or claims another size than the file has.
std::optional<ChunkHeader> header_of(const OpenBlob& blob) {
  std::array<std::byte, kChunkHeaderBytes> bytes{};
  if (!read_exactly(blob.file.get(), bytes, 0)) return std::nullopt;
  std::optional<ChunkHeader> header = read_header(bytes);
  if (header && header->file_bytes != blob.file_bytes) return std::nullopt;
  return header;
}

// The header is checked before memory is taken: a sparse file can have any size.
BlobOutcome verify_checked(const fs::path& path, const ChunkKey& key) {
  const OpenBlob blob = open_blob(path);
  if (blob.outcome != BlobOutcome::kFound) return blob.outcome;
  const std::optional<ChunkHeader> header = header_of(blob);
  if (!header || header->key != key) return BlobOutcome::kCorrupt;
  std::vector<std::byte> bytes(blob.file_bytes);
  const bool is_whole =
      read_exactly(blob.file.get(), bytes, 0) && verify_chunk(bytes, key) == ChunkReject::kNone;
  return is_whole ? BlobOutcome::kFound : BlobOutcome::kCorrupt;
}

// The clock by which the file system stamps what it writes.
timespec clock_now() {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now;
}

// Of access and of change, as utimensat() takes them.
std::array<timespec, 2> blob_times(KvKind kind) {
  const timespec now = {0, UTIME_NOW};
  if (kind == KvKind::kAnchored) return {now, now};
  timespec used = clock_now();
  used.tv_sec -= kInContextLag.count();
  return {now, used};
}

}  // namespace

BlobRead read_blob(const fs::path& path, const ExpectedChunk& expected) {
  try {
    return read_checked(path, expected);
  } catch (const std::bad_alloc&) {
    return {BlobOutcome::kRefused, nullptr, 0};
  }
}

std::optional<ChunkHeader> read_blob_header(const fs::path& path) {
  const OpenBlob blob = open_blob(path);
  return blob.outcome == BlobOutcome::kFound ? header_of(blob) : std::nullopt;
}

BlobOutcome verify_blob(const fs::path& path, const ChunkKey& key) {
  try {
    return verify_checked(path, key);
  } catch (const std::bad_alloc&) {
    return BlobOutcome::kRefused;
  }
}

bool write_blob(const fs::path& path, const ChunkKey& key, const KvChunk& chunk,
                std::string& error) {
  const std::vector<std::byte> head = chunk_head(key, chunk);
  const std::span<const std::byte> pieces[] = {head, chunk.payload()};
  // Before the name is there: who scans meanwhile sees the right kind.
  return write_file_atomic(path, pieces, error, blob_times(kind_of(chunk.lineage()))[1]);
}

BlobTime blob_time(fs::file_time_type file_time) {
  const auto system_time = std::chrono::file_clock::to_sys(file_time);
  const KvKind kind =
      blob_kind(std::chrono::floor<std::chrono::seconds>(system_time.time_since_epoch()).count());
  return {kind == KvKind::kInContext ? file_time + kInContextLag : file_time, kind};
}

KvKind blob_kind(int64_t seconds) {
  const int64_t limit = clock_now().tv_sec - kInContextLag.count() / 2;
  return seconds < limit ? KvKind::kInContext : KvKind::kAnchored;
}

void set_blob_time(const fs::path& path, KvKind kind) {
  const std::array times = blob_times(kind);
  ::utimensat(AT_FDCWD, path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
}

}  // namespace tessera
