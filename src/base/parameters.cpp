// SPDX-License-Identifier: Apache-2.0
#include "tutti/parameters.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "tutti/error.h"

namespace tutti {

FloatBuffer::FloatBuffer(std::size_t count) : size_(count) {
  if (count == 0) return;
  const std::size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
  auto* p = static_cast<float*>(std::aligned_alloc(64, bytes));
  if (!p) throw Error(fmt::format("out of memory: {} bytes for a buffer of {} floats", bytes, count));
  std::memset(p, 0, bytes);
  data_.reset(p);
}

void FloatBuffer::Free::operator()(float* p) const { std::free(p); }

}  // namespace tutti
