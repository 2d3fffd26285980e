// SPDX-License-Identifier: Apache-2.0
// clock.h -- elapsed time and the time of day.
#pragma once

#include <chrono>
#include <ctime>

namespace tutti {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// The time of day in the local time zone.
inline std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace tutti
