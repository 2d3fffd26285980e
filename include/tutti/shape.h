// SPDX-License-Identifier: Apache-2.0
// shape.h -- the shape of one sample. The first axis is the fastest in memory and samples (columns) are the slowest, so
// a minibatch of a stream is columns x elements() floats, one sample after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

struct Shape {
  std::vector<std::size_t> dims;  // empty = scalar; 0 = still to be inferred (only before shape inference)

  std::size_t rank() const { return dims.size(); }
  std::size_t elements() const {
    std::size_t n = 1;
    for (auto d : dims) n *= d;
    return n;
  }
  // Axes beyond the rank have size 1.
  std::size_t operator[](std::size_t axis) const { return axis < dims.size() ? dims[axis] : 1; }
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape&);  // "[50 x 2]"

}  // namespace tutti
