// SPDX-License-Identifier: Apache-2.0
#include "parallel/sync_point_lines.h"

#include <fmt/printf.h>

#include <algorithm>

#include "tutti/log.h"

namespace tutti {

void SyncPointLines::begin_epoch() {
  exchanges_ = mine_ = all_ = 0;
  spent_ = told_spent_ = 0;
  told_at_ = Clock::now();
}

void SyncPointLines::exchanged(double seconds, int workers) {
  ++exchanges_;
  spent_ += seconds;
  const bool reports = print_every_ > 0 && (exchanges_ <= 5 || exchanges_ % print_every_ == 0);
  if (!every_ && !reports) return;
  log::line(
      fmt::sprintf("\t\t(model aggregation stats): %d-th sync point was hit, introducing a %.2f-seconds latency this "
                   "time; accumulated time on sync point = %.2f seconds , average latency = %.2f seconds",
                   exchanges_, seconds, spent_, spent_ / static_cast<double>(exchanges_)));
  log::record("exchange", {{"seconds", seconds}, {"accumulated_seconds", spent_}});
  if (!reports) return;
  const double since = seconds_since(told_at_);
  log::line(
      fmt::sprintf("\t\t(model aggregation stats) %d-th sync: %8.2f seconds since last report (%.2f seconds on comm.); "
                   "%d samples processed by %d workers (%d by me);",
                   exchanges_, since, spent_ - told_spent_, all_, workers, mine_));
  const double rate = static_cast<double>(all_) / std::max(since, 1e-9) / 1000;
  log::line(
      fmt::sprintf("\t\t(model aggregation stats) %d-th sync: totalThroughput = %.2fk samplesPerSecond , "
                   "throughputPerWorker = %.2fk samplesPerSecond",
                   exchanges_, rate, rate / workers));
  told_at_ = Clock::now();
  told_spent_ = spent_;
  all_ = mine_ = 0;
}

}  // namespace tutti
