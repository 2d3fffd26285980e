// SPDX-License-Identifier: Apache-2.0
#include "tutti/parameters.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/memory.h"
#include "tutti/error.h"

namespace tutti {

FloatBuffer::FloatBuffer(std::size_t count) : size_(count) {
  if (count == 0) return;
  data_.reset(allocate_floats(count));
  if (!data_)
    throw Error(fmt::format("out of memory: {} bytes for a buffer of {} floats", count * sizeof(float), count));
}

void FloatBuffer::Free::operator()(float* p) const { std::free(p); }

}  // namespace tutti
