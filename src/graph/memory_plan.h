// SPDX-License-Identifier: Apache-2.0
// memory_plan.h -- places buffers with known lifetimes in one block so that buffers alive at the same time do not
// overlap.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::graph {

// Alive in the steps [begin, end], inclusive.
struct Buffer {
  std::size_t per_column = 0, fixed = 0;  // floats; a buffer uses one of the two
  std::size_t begin = 0, end = 0;
  std::size_t offset = 0;  // result, in floats, a multiple of 16

  std::size_t size(std::size_t columns) const { return (per_column * columns + fixed + 15) / 16 * 16; }
};

// Sets the offsets and returns the size of the block. Without `reuse` no buffers share memory.
std::size_t place(std::vector<Buffer>& buffers, std::size_t columns, bool reuse);

}  // namespace tutti::graph
