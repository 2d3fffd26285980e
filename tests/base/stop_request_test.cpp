// SPDX-License-Identifier: Apache-2.0
#include "base/stop_request.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <initializer_list>
#include <thread>
#include <utility>
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

// Of a process that gets these signals one after the other; a thread that computes nothing takes them. 3: it lives on.
void get(std::initializer_list<std::pair<int, std::chrono::milliseconds>> signals) {
  std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
  const StopSignals stop;
  for (const auto& [number, wait] : signals) {
    kill(getpid(), number);
    std::this_thread::sleep_for(wait);
  }
  _exit(3);
}

TEST(StopSignalsDeathTest, ASecondRequestEndsTheProcess) {
  using namespace std::chrono_literals;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(get({{SIGTERM, 200ms}, {SIGTERM, 5s}}), testing::ExitedWithCode(128 + SIGTERM), "A second signal");
  EXPECT_EXIT(get({{SIGUSR1, 200ms}, {SIGUSR1, 5s}}), testing::ExitedWithCode(128 + SIGUSR1), "A second signal");
  // The same request by two ways.
  EXPECT_EXIT(get({{SIGTERM, 200ms}, {SIGUSR1, 500ms}}), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace tutti
