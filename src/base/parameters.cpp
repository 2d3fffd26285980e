// SPDX-License-Identifier: Apache-2.0
#include "tutti/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "base/memory.h"
#include "tutti/error.h"

namespace tutti {

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.dims, " x ")); }

const FloatMemory& host_memory() {
  static constexpr FloatMemory memory{"host", allocate_floats, [](float* p) { std::free(p); }, [] {}};
  return memory;
}

FloatBuffer::FloatBuffer(std::size_t count, const FloatMemory& memory) : data_(nullptr, Free(memory)), size_(count) {
  if (count == 0) return;
  data_.reset(memory.allocate(count));
  if (!data_)
    throw Error(fmt::format("out of memory: {} of {} memory for a buffer of {} floats{}",
                            bytes_text(static_cast<double>(count) * sizeof(float)), memory.name, count,
                            is_host(memory) ? available_text(count * sizeof(float)) : ""));
}

void clear_sparse_rows(const Slice& s, std::span<const std::uint32_t> rows, FloatBuffer& gradients) {
  float* base = gradients.data() + s.offset;
  if (!s.sparse_by_row) {
    for (const auto row : rows) std::fill_n(base + row * s.rows, s.rows, 0.0f);
    return;
  }
  for (std::size_t c = 0; c < s.columns; ++c)
    for (const auto row : rows) base[c * s.rows + row] = 0;
}

}  // namespace tutti
