// SPDX-License-Identifier: Apache-2.0
// algorithms.h -- remembers which algorithm was fastest for a shape. Measured once per kind of device and kept in a
// file, so that a run, its repetition and its ranks use the same one: different algorithms differ in the last bits.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/cuda/runtime.h"

namespace tutti::cuda {

// Measures device time to compare algorithms. Waits for the device.
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

class Algorithms {
 public:
  struct Choice {
    int algorithm = 0, math = 0;
    std::string plan = {};  // in one word, where numbers do not say it
    bool lasts = true;      // false: measure again in the next process
  };
  // Uses a file in cache_folder(). Without one, or if it is not writable, choices are kept in memory.
  explicit Algorithms(const std::string& device);

  // Whether choices outlive the process; otherwise its repetition may choose differently.
  bool lasts() const { return !path_.empty(); }
  // Returns the choice for a shape (one word); measures it if it is unknown.
  Choice at(const std::string& shape, const std::function<Choice()>& measure);
  // The name of a shape in one of many sizes. The first few sizes have their own names; later ones share the name of
  // the next power of two, so their choice may have been made for another size.
  std::string name_of(const std::string& shape, std::size_t size) const;
  static std::string own_name(const std::string& shape, std::size_t size);
  // Sets what at() returns from now on, unless another process was first.
  Choice keep(const std::string& shape, const Choice&);

 private:
  void read();

  std::string path_;
  std::map<std::string, Choice> known_;
};

}  // namespace tutti::cuda
