// SPDX-License-Identifier: Apache-2.0
// nap.h -- waiting without taking the core from those who compute: a few looks at once, then ever longer naps.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti {

class Nap {
 public:
  void woken() { idle_ = 0; }
  // Naps of up to `longest` for about 20 milliseconds; who has waited so long can bear naps of one.
  void nothing_happened(std::chrono::microseconds longest = std::chrono::microseconds(100)) {
    constexpr int kLooks = 20, kShortNaps = 150;
    if (++idle_ <= kLooks) {
      sched_yield();
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
