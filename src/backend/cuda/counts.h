// SPDX-License-Identifier: Apache-2.0
// counts.h -- the limit on the size of an image tensor: cuDNN needs fewer than 2^31 values, so kernels count in 32
// bits.
#pragma once

#include <cstddef>

#include "tutti/error.h"

namespace tutti::cuda {

inline unsigned in_32_bits(std::size_t count) {
  constexpr std::size_t most = (std::size_t{1} << 31) - 1;  // a step further must not wrap around
  if (count > most)
    throw Error("a tensor of one minibatch of images has 2^31 or more values. fix: use a smaller minibatchSize");
  return static_cast<unsigned>(count);
}

}  // namespace tutti::cuda
