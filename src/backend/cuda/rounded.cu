// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rounded.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/lanes.h"

namespace tutti::cuda {
namespace {

constexpr unsigned most_rows = 65535;  // of a grid

template <class T, unsigned V>
__global__ void round_each(std::size_t rows, std::size_t width, const float* x, std::size_t step, T* to,
                           std::size_t to_step) {
  for (std::size_t r = blockIdx.y; r < rows; r += gridDim.y)
    for (std::size_t i = first_element() * V; i < width; i += element_step() * V)
      store(to + r * to_step + i, load<V>(x + r * step + i));
}

}  // namespace

void round_rows(std::size_t rows, std::size_t width, const float* x, std::size_t step, Element element, void* to,
                std::size_t to_step, cudaStream_t stream) {
  // What lies without gaps is one row.
  if (step == width && to_step == width) width *= std::exchange(rows, 1);
  const bool fours = in_fours(width, x) && (rows == 1 || (step % 4 == 0 && to_step % 4 == 0));
  with_type(element, [&](auto number) {
    using T = decltype(number);
    launch(fours ? round_each<T, 4> : round_each<T, 1>,
           dim3(blocks_for(fours ? width / 4 : width), static_cast<unsigned>(std::min<std::size_t>(rows, most_rows))),
           threads_per_block, stream, rows, width, x, step, static_cast<T*>(to), to_step);
  });
}

}  // namespace tutti::cuda
