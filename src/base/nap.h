// SPDX-License-Identifier: Apache-2.0
// nap.h -- waiting without taking the core from those who compute: a few looks at once, then ever longer naps.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti {

// Gives the core away for a moment. Whether others kept it: each of them may do so for milliseconds, after every yield,
// whereas a sleeper gets it back when it wakes up. So who waits should sleep then.
inline bool yield_was_long() {
  constexpr std::chrono::microseconds kLong(200);
  const auto start = std::chrono::steady_clock::now();
  sched_yield();
  return std::chrono::steady_clock::now() - start > kLong;
}

class Nap {
 public:
  void woken() { idle_ = 0; }
  // Naps of up to `longest` for about 20 milliseconds; who has waited so long can bear naps of one.
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
