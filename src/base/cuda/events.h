// SPDX-License-Identifier: Apache-2.0
// events.h -- events in a stream that the host queries or another stream waits for: of codecs after encoding, of sums
// over the ranks, of backends after the forward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "base/cuda/runtime.h"

namespace tutti::cuda {

// Events are recorded in stream order, so the oldest completes first. They are reused.
class Events {
 public:
  explicit Events(const char* doing) : doing_(doing) {}  // for errors
  std::uint64_t add(cudaStream_t);
  bool query(std::uint64_t event);
  void synchronize(std::uint64_t event);
  // Work enqueued in `stream` later waits for the event.
  void stream_wait(cudaStream_t stream, std::uint64_t event);

 private:
  Event& at(std::size_t i) { return events_[(first_ + i) % events_.size()]; }
  void grow();

  const char* doing_;
  std::vector<Event> events_;
  std::size_t first_ = 0, waiting_ = 0;
  std::uint64_t passed_ = 0;
};

}  // namespace tutti::cuda
