// SPDX-License-Identifier: Apache-2.0
// stopwatch.h -- measures device time to compare algorithms. Waits for the device.
#pragma once

#include <optional>

#include "base/cuda/runtime.h"

namespace tutti::cuda {

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    for (Event* e : {&begin_, &end_}) check(cudaEventCreateWithFlags(e->out(), cudaEventDefault), "making an event");
  }

  // Milliseconds per call of `work`, which returns whether it succeeded; nullopt if it failed. Work slower than `most`
  // is measured only once.
  template <class Work>
  std::optional<float> time(const Work& work, std::optional<float> most = {}) {
    if (!work()) return std::nullopt;
    if (most) {
      const std::optional<float> once = of_calls(work, 1);
      if (!once || *once > *most) return once;
    }
    return of_calls(work, repetitions);
  }

 private:
  template <class Work>
  std::optional<float> of_calls(const Work& work, int count) {
    check(cudaEventRecord(begin_.get(), stream_), doing);
    for (int i = 0; i < count; ++i)
      if (!work()) return std::nullopt;
    check(cudaEventRecord(end_.get(), stream_), doing);
    check(cudaEventSynchronize(end_.get()), doing);
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), doing);
    return milliseconds / static_cast<float>(count);
  }

  static constexpr int repetitions = 5;
  static constexpr const char* doing = "measuring algorithms";
  cudaStream_t stream_;
  Event begin_, end_;
};

}  // namespace tutti::cuda
