#include "catalog/waiting.h"

#include <condition_variable>
#include <mutex>

#include "base/error.h"

namespace tessera {

void throw_if_stopped(const std::stop_token& stop) {
  if (!stop.stop_requested()) return;
  throw Error(ErrorCode::kCancelled,
              "pull stopped - stop was asked for - pull again to go on from where it was");
}

void wait_or_throw(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  throw_if_stopped(stop);
}

}  // namespace tessera
