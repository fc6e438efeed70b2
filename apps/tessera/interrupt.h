#pragma once
// Ctrl-C and SIGTERM as a stop token. The first signal asks for a stop, so that finished work is
// kept; the second one ends the process at once, as if nobody had caught it.
#include <stop_token>
#include <thread>

namespace tessera {

// One per process, made in main before other threads. Not thread-safe to make or destroy.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  void wait_for_signal();

  std::stop_source source_;
  int read_end_ = -1;
  std::thread waiter_;
};

}  // namespace tessera
