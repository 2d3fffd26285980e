// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: maps, broadcast combinations, fused bias and activation, dropout; and their gradients.
// Strided copies: slices, stacks, transposed and repeated values. Columns moved by number: packing, slices in time,
// gathering and scattering.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

constexpr std::size_t vector_unit = 16;  // keeps whole vectors together, so that splitting changes nothing
constexpr std::size_t block = 512;       // floats of a row worked on at a time where a scratch row is needed

// Converts the operands of a row for the kernels: steps of 0 and 1 pass, others are gathered into `scratch`.
struct Gathered {
  Row row;
  std::array<std::array<float, block>, 3> scratch;
};

void gather(const Layout& l, std::span<const float* const> in, const std::array<std::size_t, 4>& at, std::size_t first,
            std::size_t n, Gathered& g) {
  for (std::size_t k = 0; k < in.size(); ++k) {
    const std::size_t step = l.stride[k][0];
    const float* x = in[k] + at[k] + first * step;
    g.row.x[k] = x, g.row.step[k] = step;
    if (step <= 1) continue;
    for (std::size_t i = 0; i < n; ++i) g.scratch[k][i] = x[i * step];
    g.row.x[k] = g.scratch[k].data(), g.row.step[k] = 1;
  }
}

void copy_row(const Kernels& kernels, std::size_t n, const float* x, std::size_t from, float* y, std::size_t to,
              bool accumulate) {
  if (from == 1 && to == 1) {
    if (accumulate)
      kernels.add(x, y, n);
    else
      std::memcpy(y, x, n * sizeof(float));
  } else if (accumulate && to == 0 && from == 1) {
    *y += kernels.sum(x, n);
  } else if (accumulate) {
    for (std::size_t i = 0; i < n; ++i) y[i * to] += x[i * from];
  } else {
    for (std::size_t i = 0; i < n; ++i) y[i * to] = x[i * from];
  }
}

// Zeroes the elements of operand k before sums are added.
void clear(const Layout& l, std::size_t k, float* x) {
  Layout own;
  for (std::size_t axis = 0; axis < l.rank; ++axis) {
    if (l.stride[k][axis] == 0) continue;
    own.size[own.rank] = l.size[axis];
    own.stride[3][own.rank++] = l.stride[k][axis];
  }
  own = joined(own, 0);
  each_row(own, 0, row_count(own), [&](const auto& at) {
    for (std::size_t i = 0; i < own.size[0]; ++i) x[at[3] + i * own.stride[3][0]] = 0;
  });
}

}  // namespace

void CpuBackend::map(UnaryOp op, const float* x, float* y, std::size_t count, Element) {
  parallel(count, vector_unit, 4, [&](std::size_t b, std::size_t e) { kernels_.map(op, x + b, y + b, e - b); });
}

void CpuBackend::map_gradient(UnaryOp op, const float* x, const float* y, const float* dy, float* dx, std::size_t count,
                              bool accumulate, Element) {
  parallel(count, vector_unit, 4, [&](std::size_t b, std::size_t e) {
    kernels_.map_gradient(op, x + b, y + b, dy + b, dx + b, e - b, accumulate);
  });
}

void CpuBackend::combine(PointOp op, const Layout& layout, std::span<const float* const> in, float* y) {
  const Layout l = joined(layout, in.size());
  if (elements(l) == 0) return;
  const bool gathers = std::any_of(l.stride.begin(), l.stride.begin() + static_cast<long>(in.size()),
                                   [](const auto& s) { return s[0] > 1; });
  const auto whole = [&](std::size_t begin, std::size_t end) {
    each_row(l, begin, end, [&](const auto& at) {
      Gathered g;
      const std::size_t step = gathers ? block : l.size[0];
      for (std::size_t first = 0; first < l.size[0]; first += step) {
        const std::size_t n = std::min(step, l.size[0] - first);
        gather(l, in, at, first, n, g);
        kernels_.combine(op, g.row, y + at[3] + first, n);
      }
    });
  };
  if (row_count(l) > 1) return parallel(row_count(l), 1, l.size[0], whole);
  if (gathers) return whole(0, 1);
  parallel(l.size[0], vector_unit, 2, [&](std::size_t b, std::size_t e) {
    Row row{};
    for (std::size_t k = 0; k < in.size(); ++k) row.x[k] = in[k] + b * l.stride[k][0], row.step[k] = l.stride[k][0];
    kernels_.combine(op, row, y + b, e - b);
  });
}

void CpuBackend::combine_gradient(PointOp op, std::size_t k, const Layout& layout, std::span<const float* const> in,
                                  const float* dy, float* dx, bool accumulate) {
  const Layout l = joined(layout, in.size());
  if (elements(l) == 0) return;
  const bool sums = repeats(l, k);
  if (sums && !accumulate) clear(l, k, dx);
  const auto rows = [&](std::size_t begin, std::size_t end) {
    each_row(l, begin, end, [&](const auto& at) {
      Gathered g;
      std::array<float, block> gradient;
      for (std::size_t first = 0; first < l.size[0]; first += block) {
        const std::size_t n = std::min(block, l.size[0] - first);
        gather(l, in, at, first, n, g);
        kernels_.combine_gradient(op, k, g.row, dy + at[3] + first, gradient.data(), n);
        copy_row(kernels_, n, gradient.data(), 1, dx + at[k] + first * l.stride[k][0], l.stride[k][0],
                 accumulate || sums);
      }
    });
  };
  if (sums)
    rows(0, row_count(l));
  else
    parallel(row_count(l), 1, l.size[0], rows);
}

void CpuBackend::bias_activation(UnaryOp op, std::size_t rows, std::size_t n, const float* bias, float* y, Element) {
  parallel(rows, 1, n, [&](std::size_t b, std::size_t e) {
    for (std::size_t r = b; r < e; ++r) kernels_.bias_activation(op, bias, y + r * n, n);
  });
}

void CpuBackend::bias_activation_gradient(UnaryOp op, std::size_t rows, std::size_t n, const float* y, float* dy,
                                          float* dbias, bool accumulate, Element) {
  parallel(n, vector_unit, rows, [&](std::size_t b, std::size_t e) {
    kernels_.bias_activation_gradient(op, rows, n, y + b, dy + b, dbias ? dbias + b : nullptr, e - b, accumulate);
  });
}

void CpuBackend::dropout(const DropoutMask& mask, const float* x, float* y, std::size_t count, bool accumulate,
                         Element) {
  constexpr std::size_t work = 8;  // of an element
  const auto first_of = [&](std::size_t column) {
    return static_cast<std::uint64_t>(mask.samples[column]) * (mask.whole ? mask.whole : mask.elements) + mask.first;
  };
  if (mask.block > 0) {
    const std::size_t run = mask.block * mask.pixels, runs = (mask.channels + mask.block - 1) / mask.block;
    return parallel(count / run, 1, work * run, [&](std::size_t b, std::size_t e) {
      for (std::size_t r = b; r < e; ++r)
        kernels_.dropout(mask, first_of(r / runs) + r % runs * run, x + r * run, y + r * run, run, accumulate);
    });
  }
  parallel(count, vector_unit, work, [&](std::size_t b, std::size_t e) {
    for (std::size_t at = b; at < e;) {
      // Samples that follow each other are one row of numbers.
      const std::size_t column = at / mask.elements;
      std::size_t last = column;
      while (!mask.whole && (last + 1) * mask.elements < e && mask.samples[last + 1] == mask.samples[last] + 1) ++last;
      const std::size_t n = std::min(e, (last + 1) * mask.elements) - at;
      kernels_.dropout(mask, first_of(column) + at % mask.elements, x + at, y + at, n, accumulate);
      at += n;
    }
  });
}

void CpuBackend::copy(const Layout& layout, const float* x, float* y, bool accumulate) {
  const Layout l = joined(layout, 1);
  if (elements(l) == 0) return;
  const auto rows = [&](std::size_t begin, std::size_t end) {
    each_row(l, begin, end, [&](const auto& at) {
      copy_row(kernels_, l.size[0], x + at[0], l.stride[0][0], y + at[3], l.stride[3][0], accumulate);
    });
  };
  if (repeats(l, 3))
    rows(0, row_count(l));
  else
    parallel(row_count(l), 1, l.size[0], rows);
}

void CpuBackend::gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) {
  parallel(from.size(), 1, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c)
      if (from[c] < 0)
        std::memset(y + c * width, 0, width * sizeof(float));
      else
        std::memcpy(y + c * width, x + static_cast<std::size_t>(from[c]) * width, width * sizeof(float));
  });
}

// One thread: a column may be the target of several.
void CpuBackend::scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) {
  for (std::size_t c = 0; c < from.size(); ++c)
    if (from[c] >= 0) kernels_.add(dy + c * width, dx + static_cast<std::size_t>(from[c]) * width, width);
}

void CpuBackend::replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                                 float* y) {
  for (std::size_t c = 0; c < columns; ++c)
    if (from[c] >= 0) std::memcpy(y + c * width, x + static_cast<std::size_t>(from[c]) * width, width * sizeof(float));
}

}  // namespace tutti::cpu
