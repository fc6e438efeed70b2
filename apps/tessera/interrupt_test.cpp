#include "tessera/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>

namespace tessera {
namespace {

// Waits until the token was told to stop; hangs, and so fails by the test's time limit, if it never
// is.
void wait_for_stop(const std::stop_token& token) {
  std::promise<void> stopped;
  const std::stop_callback tell(token, [&stopped] { stopped.set_value(); });
  stopped.get_future().wait();
}

TEST(Interrupt, FirstSignalAsksForAStopAndTheProcessLives) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Interrupt interrupt;
    EXPECT_FALSE(interrupt.token().stop_requested());

    std::raise(signal);
    wait_for_stop(interrupt.token());

    EXPECT_TRUE(interrupt.token().stop_requested());
  }
}

TEST(Interrupt, SecondSignalEndsTheProcess) {
  const auto raise_twice = [] {
    const Interrupt interrupt;
    std::raise(SIGINT);
    std::raise(SIGINT);
  };
  EXPECT_EXIT(raise_twice(), testing::KilledBySignal(SIGINT), "");
}

TEST(Interrupt, EndsWithoutASignal) {
  const Interrupt interrupt;
  EXPECT_FALSE(interrupt.token().stop_requested());
}

}  // namespace
}  // namespace tessera
