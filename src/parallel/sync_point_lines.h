// SPDX-License-Identifier: Apache-2.0
// sync_point_lines.h -- the log lines about weight exchanges (syncPerfStats): how long each took, and how many samples
// were processed in between. One object per rank.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tutti {

class SyncPointLines {
 public:
  // `every`: a line for each exchange. `print_every`: lines about the first five exchanges and every n-th; 0 = none.
  SyncPointLines(bool every, std::int64_t print_every) : every_(every), print_every_(print_every) {}
  void begin_epoch();
  // A step of this rank, with its samples and those of all `workers`.
  void add(std::int64_t mine, std::int64_t all) { mine_ += mine, all_ += all; }
  void exchanged(double seconds, int workers);

 private:
  bool every_;
  std::int64_t print_every_;
  // In this epoch; samples since the last report.
  std::int64_t exchanges_ = 0, mine_ = 0, all_ = 0;
  double spent_ = 0, told_spent_ = 0;
  Clock::time_point told_at_;
};

}  // namespace tutti
