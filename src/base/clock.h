// SPDX-License-Identifier: Apache-2.0
// clock.h -- elapsed time and the time of day.
#pragma once

#include <chrono>
#include <ctime>

namespace tutti {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Adds the seconds of its scope to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  ~Stopwatch() { total_ += seconds_since(start_); }

 private:
  double& total_;
  Clock::time_point start_ = Clock::now();
};

// The time of day in the local time zone.
inline std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace tutti
