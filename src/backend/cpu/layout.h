// SPDX-License-Identifier: Apache-2.0
// layout.h -- walks a Layout row by row. Axes that are contiguous in every operand are merged first, so that most calls
// become one or two long rows.
#pragma once

#include <array>
#include <cstddef>

#include "tutti/backend.h"

namespace tutti::cpu {

// Merges neighbouring axes and drops axes of size 1. Operands beyond `operands` are ignored; the result counts.
inline Layout joined(const Layout& in, std::size_t operands) {
  Layout out;
  const auto fits = [&](std::size_t axis) {
    const std::size_t last = out.rank - 1;
    for (std::size_t k = 0; k < 4; ++k)
      if ((k < operands || k == 3) && in.stride[k][axis] != out.stride[k][last] * out.size[last]) return false;
    return true;
  };
  for (std::size_t axis = 0; axis < in.rank; ++axis) {
    if (in.size[axis] == 1) continue;
    if (out.rank > 0 && fits(axis)) {
      out.size[out.rank - 1] *= in.size[axis];
      continue;
    }
    out.size[out.rank] = in.size[axis];
    for (std::size_t k = 0; k < 4; ++k) out.stride[k][out.rank] = in.stride[k][axis];
    ++out.rank;
  }
  if (out.rank == 0) {
    out.rank = 1;
    out.size[0] = 1;
    for (std::size_t k = 0; k < 4; ++k) out.stride[k][0] = 1;
  }
  return out;
}

inline std::size_t elements(const Layout& l) {
  std::size_t n = 1;
  for (std::size_t axis = 0; axis < l.rank; ++axis) n *= l.size[axis];
  return n;
}

// Calls f(offsets of the four operands) for the rows [begin, end) of all axes above axis 0.
template <class F>
void each_row(const Layout& l, std::size_t begin, std::size_t end, const F& f) {
  for (std::size_t row = begin; row < end; ++row) {
    std::array<std::size_t, 4> offset{};
    std::size_t rest = row;
    for (std::size_t axis = 1; axis < l.rank; ++axis) {
      const std::size_t i = rest % l.size[axis];
      rest /= l.size[axis];
      for (std::size_t k = 0; k < 4; ++k) offset[k] += i * l.stride[k][axis];
    }
    f(offset);
  }
}

inline std::size_t row_count(const Layout& l) { return elements(l) / (l.size[0] ? l.size[0] : 1); }

// Whether several elements of the walk map to one element of operand k.
inline bool repeats(const Layout& l, std::size_t k) {
  for (std::size_t axis = 0; axis < l.rank; ++axis)
    if (l.stride[k][axis] == 0 && l.size[axis] > 1) return true;
  return false;
}

}  // namespace tutti::cpu
