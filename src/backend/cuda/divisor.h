// SPDX-License-Identifier: Apache-2.0
// divisor.h -- counting in 32 bits: cuDNN needs fewer than 2^31 values per image tensor, and division by a number known
// on the host is a multiplication and a shift then, where a GPU needs about twenty instructions to divide.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "tutti/error.h"

namespace tutti::cuda {

inline unsigned in_32_bits(std::size_t count) {
  constexpr std::size_t most = (std::size_t{1} << 31) - 1;  // a step further must not wrap around
  if (count > most)
    throw Error("a tensor of one minibatch of images has 2^31 or more values. fix: use a smaller minibatchSize");
  return static_cast<unsigned>(count);
}

class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(unsigned by) {
    while (std::uint64_t{1} << shift_ < by) ++shift_;
    factor_ = static_cast<unsigned>((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift_) - by) / by + 1);
  }
  __host__ __device__ unsigned quotient(unsigned n) const {
    return (static_cast<unsigned>(std::uint64_t{n} * factor_ >> 32) + n) >> shift_;
  }

 private:
  unsigned factor_ = 1, shift_ = 0;
};

// The sizes of a walk, fastest axis first: split() returns the position on the fastest axis and the index on the
// others.
struct Axis {
  unsigned size = 1;
  Divisor by;
  Axis() = default;
  explicit Axis(std::size_t n) : size(static_cast<unsigned>(n)), by(size) {}
  __device__ unsigned split(unsigned& number) const {
    const unsigned rest = by.quotient(number), place = number - rest * size;
    number = rest;
    return place;
  }
};

}  // namespace tutti::cuda
