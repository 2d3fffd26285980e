// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/events.h"

#include <algorithm>

namespace tutti::cuda {

std::uint64_t Events::add(cudaStream_t stream) {
  if (waiting_ == events_.size()) grow();
  check(cudaEventRecord(at(waiting_).get(), stream), doing_);
  ++waiting_;
  return passed_ + waiting_;
}

bool Events::query(std::uint64_t event) {
  while (waiting_ > 0 && passed_ < event) {
    const cudaError_t status = cudaEventQuery(at(0).get());
    if (status == cudaErrorNotReady) return false;
    check(status, doing_);
    first_ = (first_ + 1) % events_.size(), --waiting_, ++passed_;
  }
  return true;
}

void Events::synchronize(std::uint64_t event) {
  if (!query(event)) check(cudaEventSynchronize(at(static_cast<std::size_t>(event - passed_ - 1)).get()), doing_);
}

void Events::stream_wait(cudaStream_t stream, std::uint64_t event) {
  if (query(event)) return;
  check(cudaStreamWaitEvent(stream, at(static_cast<std::size_t>(event - passed_ - 1)).get(), 0), doing_);
}

void Events::grow() {
  std::rotate(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(first_), events_.end());
  first_ = 0;
  events_.push_back(make_event());
}

}  // namespace tutti::cuda
