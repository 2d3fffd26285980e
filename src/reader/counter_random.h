// SPDX-License-Identifier: Apache-2.0
// counter_random.h -- random numbers that depend only on a seed and an index, so that any sample can be made at any
// time.
#pragma once

#include <cstdint>

namespace tutti::reader {

class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::uint64_t index) : state_(mix(seed * golden + mix(index + golden))) {}
  std::uint64_t next() { return mix(state_ += golden); }
  double uniform_double() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  std::int64_t below(std::int64_t n) {  // 0 .. n-1; the bias of n / 2^64 is far below anything that shows
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }  // [0, 1)
  float between(float low, float high) { return low + (high - low) * uniform(); }

  static constexpr std::uint64_t golden = 0x9E3779B97F4A7C15u;
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace tutti::reader
