// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/marks.h"

#include <algorithm>

namespace tutti::cuda {

std::uint64_t Marks::add(cudaStream_t stream) {
  if (waiting_ == events_.size()) grow();
  check(cudaEventRecord(at(waiting_).get(), stream), doing_);
  ++waiting_;
  return passed_ + waiting_;
}

bool Marks::passed(std::uint64_t mark) {
  while (waiting_ > 0 && passed_ < mark) {
    const cudaError_t status = cudaEventQuery(at(0).get());
    if (status == cudaErrorNotReady) return false;
    check(status, doing_);
    first_ = (first_ + 1) % events_.size(), --waiting_, ++passed_;
  }
  return true;
}

void Marks::wait_for(std::uint64_t mark) {
  if (!passed(mark)) check(cudaEventSynchronize(at(static_cast<std::size_t>(mark - passed_ - 1)).get()), doing_);
}

void Marks::follow(std::uint64_t mark, cudaStream_t stream) {
  if (passed(mark)) return;
  check(cudaStreamWaitEvent(stream, at(static_cast<std::size_t>(mark - passed_ - 1)).get(), 0), doing_);
}

void Marks::grow() {
  std::rotate(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(first_), events_.end());
  first_ = 0;
  events_.push_back(make_event());
}

}  // namespace tutti::cuda
