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
  void nothing_happened(std::chrono::microseconds longest) {
    if (++idle_ <= 20) {
      sched_yield();
      return;
    }
    const int doublings = std::min((idle_ - 20) / 4, 10);
    std::this_thread::sleep_for(std::min(std::chrono::microseconds(10 << doublings), longest));
  }

 private:
  int idle_ = 0;
};

}  // namespace tutti
