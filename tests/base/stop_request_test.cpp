// SPDX-License-Identifier: Apache-2.0
#include "base/stop_request.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>

#include <future>
#include <thread>
#include <vector>

namespace tutti {
namespace {

bool blocked(int number) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, number) == 1;
}

TEST(StopSignals, AreTakenByThreadsThatDoNotCompute) {
  std::promise<void> began;
  std::promise<std::vector<bool>> found;
  std::thread other([&, go = began.get_future()]() mutable {
    go.wait();
    found.set_value({blocked(SIGTERM), blocked(SIGINT), blocked(SIGUSR1)});
  });
  omp_set_num_threads(3);
#pragma omp parallel  // the threads are there already
  EXPECT_FALSE(blocked(SIGTERM));
  {
    const StopSignals signals;
    omp_set_num_threads(4);
    std::vector<int> kept(4, 0);
#pragma omp parallel
    kept[static_cast<std::size_t>(omp_get_thread_num())] = blocked(SIGTERM) + blocked(SIGINT) + blocked(SIGUSR1);
    EXPECT_EQ(kept, std::vector<int>(4, 3));
    began.set_value();
    EXPECT_EQ(found.get_future().get(), std::vector<bool>(3, false));
  }
  other.join();
  EXPECT_FALSE(blocked(SIGTERM));
}

TEST(StopSignalsDeathTest, OutsideOfATrainingEndTheProcess) {
  const auto stopped = [](bool after_a_training) {
    end_on_signals(75, true);
    if (after_a_training) StopSignals();
    raise(SIGUSR1);
  };
  for (const bool after_a_training : {false, true})
    EXPECT_EXIT(stopped(after_a_training), testing::ExitedWithCode(75), "there is nothing to save");
}

}  // namespace
}  // namespace tutti
