#pragma once
// The pull of one entry with its knobs. Users call pull_model of catalog.h; the tests shorten the
// times. Thread-safe: pulls of one model wait for each other.
#include <chrono>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "catalog/catalog.h"

namespace tessera {

struct PullOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  // A transfer slower than this over the whole window is given up.
  uint64_t low_speed_bytes_per_s = 1024;
  std::chrono::milliseconds low_speed_window{30'000};
  // After a cut connection that had brought at least one byte.
  int max_retries = 5;
  std::chrono::milliseconds first_backoff{250};  // doubles
  std::chrono::milliseconds max_backoff{8'000};
  std::string python = "python3";
};

// pull_model for a given entry: its file in the folder `dir`. Same guarantees and errors.
using ProgressCallback = std::function<void(const PullProgress&)>;
std::filesystem::path pull_entry(const CatalogEntry& entry, const std::filesystem::path& dir,
                                 const PullOptions& options, const ProgressCallback& progress,
                                 const std::stop_token& stop = {});

}  // namespace tessera
