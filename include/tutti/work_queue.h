// SPDX-License-Identifier: Apache-2.0
// work_queue.h -- work that ranks fetch as they get on, for strategies under which no rank waits for another: who is
// slow gets less of it, and still every sample is used once in an epoch.
#pragma once

#include <cstdint>

namespace tutti {

// A work unit is one share of one minibatch of a range of data; its number is minibatch * shares + share, both from 0.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;
  // A new range: numbers begin at 0 again. Every rank calls this equally often, while it has no next() in flight.
  virtual void start_range() = 0;
  // The next unit for this rank. Each number goes to one rank, or to the ranks of one group; those of a rank ascend,
  // and they never end: readers know where the data do. Called by one thread at a time, which need not be the one that
  // calls all else.
  virtual std::int64_t next() = 0;
};

}  // namespace tutti
