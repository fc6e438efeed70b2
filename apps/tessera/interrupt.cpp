#include "tessera/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/error.h"

namespace tessera {
namespace {

constexpr char kStop = 's';
constexpr char kQuit = 'q';

// A signal handler can reach nothing but globals, and may do little more than write to a pipe: a
// stop source takes locks and runs callbacks, so a thread at the other end of the pipe does that.
std::atomic<int> g_write_end = -1;
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int) {
  const int saved_errno = errno;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  [[maybe_unused]] const ssize_t n = write(g_write_end, &kStop, 1);
  errno = saved_errno;
}

}  // namespace

Interrupt::Interrupt() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kIo, std::string("cannot make a pipe - ") + std::strerror(errno) +
                                    " - raise the limit of open files");
  }
  read_end_ = ends[0];
  g_write_end = ends[1];
  waiter_ = std::thread([this] { wait_for_signal(); });

  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  [[maybe_unused]] const ssize_t n = write(g_write_end, &kQuit, 1);
  waiter_.join();
  close(g_write_end.exchange(-1));
  close(read_end_);
}

void Interrupt::wait_for_signal() {
  char byte = kQuit;
  ssize_t n = 0;
  do {
    n = read(read_end_, &byte, 1);
  } while (n < 0 && errno == EINTR);
  if (n == 1 && byte == kStop) {
    std::fputs("\nstopping; finished work is kept (again to end at once)\n", stderr);
    source_.request_stop();
  }
}

}  // namespace tessera
