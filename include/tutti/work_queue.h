// SPDX-License-Identifier: Apache-2.0
// work_queue.h -- dynamic division of the data: ranks take work units from a shared queue, so a slow rank gets fewer of
// them. Every sample is still used exactly once per epoch. Used by asynchronous methods (ASGD, asynchronous EASGD).
#pragma once

#include <cstdint>

namespace tutti {

// Hands out work units. Unit i is share (i % shares) of minibatch (i / shares) of the current data range.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;
  // Starts a new range at unit 0. Collective; no next() may be in flight.
  virtual void start_range() = 0;
  // Returns the next unit for this rank, or for its group. Units of a rank ascend and never repeat. The queue is
  // endless: the reader stops at the end of its data. Called by one thread at a time, which need not be the caller of
  // start_range().
  virtual std::int64_t next() = 0;
};

}  // namespace tutti
