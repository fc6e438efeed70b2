#pragma once
// Waits that end at once when the caller asks to stop. Thread-safe.
#include <chrono>
#include <stop_token>

namespace tessera {

// Throws Error(kCancelled) when stop was asked for.
void throw_if_stopped(const std::stop_token& stop);

// Returns when the time is over. Throws Error(kCancelled) as soon as stop is asked for.
void wait_or_throw(const std::stop_token& stop, std::chrono::milliseconds time);

}  // namespace tessera
