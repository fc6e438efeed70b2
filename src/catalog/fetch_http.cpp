#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "base/check.h"
#include "catalog/fetch.h"
#include "catalog/waiting.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// How long the loop may sleep before it looks at the transfer's speed again.
constexpr int kPollMs = 100;

// Two types, since both of curl's handles are void pointers.
struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

// One request and its answer. The callbacks are called by curl's C code, so they never throw: they
// note what went wrong and end the transfer.
struct Attempt {
  explicit Attempt(const Fetch& whole) : fetch(whole) {}

  const Fetch& fetch;
  std::array<char, CURL_ERROR_SIZE> error_text{};  // curl writes here until its handle is gone
  std::unique_ptr<CURL, EasyDeleter> easy{curl_easy_init()};
  bool is_accepted = false;
  uint64_t n_received = 0;
  int disk_errno = 0;
  std::string refusal;

  // Looks at status and lengths before the first byte is kept.
  bool accept();
  bool accept_range();
};

bool Attempt::accept_range() {
  curl_header* header = nullptr;
  const uint64_t total_wanted = fetch.entry.bytes;
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t total = total_wanted;  // an asterisk stands for a total that the server does not know
  const CURLHcode found =
      curl_easy_header(easy.get(), "Content-Range", 0, CURLH_HEADER, -1, &header);
  const bool is_range =
      found == CURLHE_OK && std::sscanf(header->value, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64,
                                        &first, &last, &total) >= 2;
  if (!is_range || first != fetch.part.size()) {
    refusal = fmt::format("answered another range than bytes {}-", fetch.part.size());
  } else if (total != total_wanted) {
    refusal = fmt::format("has {} bytes, the catalogue says {}", total, total_wanted);
  }
  return refusal.empty();
}

bool Attempt::accept() {
  if (is_accepted) return true;
  long status = 0;
  curl_off_t length = -1;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (status == 206) {
    is_accepted = accept_range();
    return is_accepted;
  }
  if (status != 200) {
    refusal = fmt::format("HTTP status {}", status);
    return false;
  }
  if (length >= 0 && static_cast<uint64_t>(length) != fetch.entry.bytes) {
    refusal = fmt::format("has {} bytes, the catalogue says {}", length, fetch.entry.bytes);
    return false;
  }
  // The whole file comes although the rest was asked for.
  if (fetch.part.size() > 0) disk_errno = fetch.part.truncate(0);
  is_accepted = disk_errno == 0;
  return is_accepted;
}

size_t keep_bytes(char* data, size_t, size_t n_bytes, void* user) {
  Attempt& attempt = *static_cast<Attempt*>(user);
  if (!attempt.accept()) return CURL_WRITEFUNC_ERROR;
  PartFile& part = attempt.fetch.part;
  if (n_bytes > attempt.fetch.entry.bytes - part.size()) {
    attempt.refusal =
        fmt::format("sends more than the {} bytes of the catalogue", attempt.fetch.entry.bytes);
    return CURL_WRITEFUNC_ERROR;
  }
  attempt.disk_errno = part.append(std::as_bytes(std::span(data, n_bytes)));
  if (attempt.disk_errno != 0) return CURL_WRITEFUNC_ERROR;
  attempt.n_received += n_bytes;
  return n_bytes;
}

void set_options(Attempt& attempt, const std::string& url, const std::string& bearer) {
  CURL* easy = attempt.easy.get();
  const Fetch& fetch = attempt.fetch;
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "tessera");
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // a stop does not wait for a slow name server
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(fetch.options.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, attempt.error_text.data());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &attempt);
  if (fetch.part.size() > 0) {
    // curl copies the text of string options.
    curl_easy_setopt(easy, CURLOPT_RANGE, fmt::format("{}-", fetch.part.size()).c_str());
  }
  if (!bearer.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, bearer.c_str());
  }
}

// Measures a transfer over windows, so that a short pause is forgiven and a trickle is not.
class SpeedGuard {
 public:
  explicit SpeedGuard(const PullOptions& options) : options_(options) {}

  bool is_too_slow(uint64_t n_received) {
    const auto now = Clock::now();
    const std::chrono::duration<double> elapsed = now - window_start_;
    if (elapsed < options_.low_speed_window) return false;
    const double wanted = static_cast<double>(options_.low_speed_bytes_per_s) * elapsed.count();
    const bool is_slow = static_cast<double>(n_received - n_at_start_) < wanted;
    window_start_ = now;
    n_at_start_ = n_received;
    return is_slow;
  }

 private:
  const PullOptions& options_;
  Clock::time_point window_start_ = Clock::now();
  uint64_t n_at_start_ = 0;
};

// A multi handle holding one transfer, which it lets go at its end.
class Loop {
 public:
  explicit Loop(CURL* easy) : multi_(curl_multi_init()), easy_(easy) {
    CHECK(multi_ != nullptr && curl_multi_add_handle(multi_.get(), easy_) == CURLM_OK);
  }
  ~Loop() { curl_multi_remove_handle(multi_.get(), easy_); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  CURLM* get() const { return multi_.get(); }

  // The result once the transfer has ended.
  CURLcode result() const {
    int n_left = 0;
    const CURLMsg* message = curl_multi_info_read(multi_.get(), &n_left);
    return message != nullptr ? message->data.result : CURLE_FAILED_INIT;
  }

 private:
  std::unique_ptr<CURLM, MultiDeleter> multi_;
  CURL* easy_;
};

CURLcode transfer(Attempt& attempt) {
  const Fetch& fetch = attempt.fetch;
  const Loop loop(attempt.easy.get());
  const std::stop_callback wake(fetch.stop, [&loop] { curl_multi_wakeup(loop.get()); });
  SpeedGuard guard(fetch.options);
  int n_running = 1;
  while (true) {
    const CURLMcode code = curl_multi_perform(loop.get(), &n_running);
    if (code != CURLM_OK) return CURLE_FAILED_INIT;
    fetch.progress.report(fetch.part.size());
    throw_if_stopped(fetch.stop);
    if (n_running == 0) return loop.result();
    if (guard.is_too_slow(attempt.n_received)) {
      attempt.refusal =
          fmt::format("slower than {} bytes a second for {} s", fetch.options.low_speed_bytes_per_s,
                      fetch.options.low_speed_window.count() / 1000.0);
      return CURLE_OPERATION_TIMEDOUT;
    }
    curl_multi_poll(loop.get(), nullptr, 0, kPollMs, nullptr);
  }
}

// Results after which the bytes so far are good and the rest may still come.
constexpr std::array kCut = {CURLE_OK,           CURLE_PARTIAL_FILE,      CURLE_RECV_ERROR,
                             CURLE_SEND_ERROR,   CURLE_GOT_NOTHING,       CURLE_HTTP2,
                             CURLE_HTTP2_STREAM, CURLE_OPERATION_TIMEDOUT};

bool is_cut(CURLcode code) { return std::find(kCut.begin(), kCut.end(), code) != kCut.end(); }

struct AttemptOutcome {
  FetchFailure failure;
  bool is_worth_a_retry = false;
};

AttemptOutcome try_once(const Fetch& fetch, const std::string& url, const std::string& bearer) {
  Attempt attempt(fetch);
  CHECK(attempt.easy != nullptr);
  set_options(attempt, url, bearer);
  const CURLcode code = transfer(attempt);
  // An answer without a body has not been looked at yet.
  if (code == CURLE_OK && attempt.refusal.empty()) attempt.accept();
  if (attempt.disk_errno != 0) throw_disk_error(fetch, attempt.disk_errno);
  const bool is_too_slow = code == CURLE_OPERATION_TIMEDOUT;
  if (!attempt.refusal.empty() && !is_too_slow) return {attempt.refusal, false};
  if (code == CURLE_OK && fetch.part.size() == fetch.entry.bytes) return {};

  std::string reason = attempt.refusal;
  if (reason.empty()) reason = attempt.error_text.data();
  if (reason.empty()) reason = code == CURLE_OK ? "the connection ended" : curl_easy_strerror(code);
  reason += fmt::format(" (at {} of {} bytes)", fetch.part.size(), fetch.entry.bytes);
  return {reason, is_cut(code) && attempt.n_received > 0};
}

}  // namespace

FetchFailure fetch_http(const Fetch& fetch, const std::string& url, const std::string& bearer) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(global == CURLE_OK);
  auto backoff = fetch.options.first_backoff;
  for (int n_retries = 0;; ++n_retries) {
    const AttemptOutcome outcome = try_once(fetch, url, bearer);
    if (!outcome.failure) return std::nullopt;
    if (!outcome.is_worth_a_retry || n_retries >= fetch.options.max_retries) {
      return n_retries == 0 ? *outcome.failure
                            : fmt::format("{}, after {} retries", *outcome.failure, n_retries);
    }
    wait_or_throw(fetch.stop, backoff);
    backoff = std::min(2 * backoff, fetch.options.max_backoff);
  }
}

}  // namespace tessera
