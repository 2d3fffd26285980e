// SPDX-License-Identifier: Apache-2.0
// clock.h -- how long something took.
#pragma once

#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

}  // namespace tutti
