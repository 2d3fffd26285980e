// SPDX-License-Identifier: Apache-2.0
// nap.h -- waits without taking the core from computing threads: polls a few times, then sleeps for increasing times.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti {

// Yields the core. Returns whether other threads kept it: each may keep it for milliseconds after every yield, while a
// sleeping thread gets it back when it wakes. A waiting thread should sleep then.
inline bool yield_was_long() {
  constexpr std::chrono::microseconds kLong(200);
  const auto start = std::chrono::steady_clock::now();
  sched_yield();
  return std::chrono::steady_clock::now() - start > kLong;
}

// Waits for another rank, which may share this core: looks a hundred times, then yields between looks. poll(n) is
// called after look n in vain.
template <class Ready, class Poll>
void wait_until(const Ready& ready, const Poll& poll) {
  constexpr int kBusy = 100;
  for (int looks = 0; !ready(); ++looks) {
    poll(looks);
    if (looks >= kBusy) sched_yield();
  }
}

class Nap {
 public:
  void woken() { idle_ = 0; }
  // Sleeps up to `longest` for the first 20 milliseconds or so, then about a millisecond at a time.
  void nothing_happened(std::chrono::microseconds longest = std::chrono::microseconds(100)) {
    constexpr int kLooks = 20, kShortNaps = 150;
    if (++idle_ <= kLooks) {
      if (yield_was_long()) idle_ = kLooks;
      return;
    }
    if (idle_ > kLooks + kShortNaps) longest = std::max(longest, std::chrono::microseconds(1000));
    const int doublings = std::min((idle_ - kLooks) / 4, 10);
    std::this_thread::sleep_for(std::min(std::chrono::microseconds(10 << doublings), longest));
  }

 private:
  int idle_ = 0;
};

}  // namespace tutti
