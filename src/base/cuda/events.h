// SPDX-License-Identifier: Apache-2.0
// events.h -- places in a stream that the host asks about, or that another stream waits for: those of codecs behind
// what they have encoded, those of sums over the ranks, those of backends behind the forward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "base/cuda/runtime.h"

namespace tutti::cuda {

// Events in the order of the stream, so the oldest one is passed first. They are taken again.
class Events {
 public:
  explicit Events(const char* doing) : doing_(doing) {}  // for errors
  std::uint64_t add(cudaStream_t);
  bool query(std::uint64_t event);
  void synchronize(std::uint64_t event);
  // What is put into `stream` from now on comes behind the event.
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
