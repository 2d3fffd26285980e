// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: maps, broadcast combinations, fused bias and activation, dropout; and their gradients.
#include <algorithm>
#include <array>

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

void add_row(const Kernels& kernels, const float* g, std::size_t n, float* target, std::size_t step, bool accumulate) {
  if (step == 0) {
    *target += kernels.sum(g, n);
  } else if (step == 1 && accumulate) {
    kernels.add(g, target, n);
  } else {
    for (std::size_t i = 0; i < n; ++i) target[i * step] = accumulate ? target[i * step] + g[i] : g[i];
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

void CpuTensors::map(UnaryOp op, const float* x, float* y, std::size_t count, Element) {
  parallel(count, vector_unit, 4, [&](std::size_t b, std::size_t e) { kernels_.map(op, x + b, y + b, e - b); });
}

void CpuTensors::map_gradient(UnaryOp op, const float* x, const float* y, const float* dy, float* dx, std::size_t count,
                              bool accumulate, Element) {
  parallel(count, vector_unit, 4, [&](std::size_t b, std::size_t e) {
    kernels_.map_gradient(op, x + b, y + b, dy + b, dx + b, e - b, accumulate);
  });
}

void CpuTensors::combine(PointOp op, const Layout& layout, std::span<const float* const> in, float* y) {
  const Layout l = joined(layout, in.size());
  if (elements(l) == 0) return;
  const auto whole = [&](std::size_t begin, std::size_t end) {
    each_row(l, begin, end, [&](const auto& at) {
      Gathered g;
      const bool gathers = std::any_of(l.stride.begin(), l.stride.begin() + static_cast<long>(in.size()),
                                       [](const auto& s) { return s[0] > 1; });
      const std::size_t step = gathers ? block : l.size[0];
      for (std::size_t first = 0; first < l.size[0]; first += step) {
        const std::size_t n = std::min(step, l.size[0] - first);
        gather(l, in, at, first, n, g);
        kernels_.combine(op, g.row, y + at[3] + first, n);
      }
    });
  };
  if (row_count(l) > 1) return parallel(row_count(l), 1, l.size[0], whole);
  const bool plain = std::all_of(l.stride.begin(), l.stride.begin() + static_cast<long>(in.size()),
                                 [](const auto& s) { return s[0] <= 1; });
  if (!plain) return whole(0, 1);
  parallel(l.size[0], vector_unit, 2, [&](std::size_t b, std::size_t e) {
    Row row{};
    for (std::size_t k = 0; k < in.size(); ++k) row.x[k] = in[k] + b * l.stride[k][0], row.step[k] = l.stride[k][0];
    kernels_.combine(op, row, y + b, e - b);
  });
}

void CpuTensors::combine_gradient(PointOp op, std::size_t k, const Layout& layout, std::span<const float* const> in,
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
        add_row(kernels_, gradient.data(), n, dx + at[k] + first * l.stride[k][0], l.stride[k][0], accumulate || sums);
      }
    });
  };
  if (sums)
    rows(0, row_count(l));
  else
    parallel(row_count(l), 1, l.size[0], rows);
}

void CpuTensors::bias_activation(UnaryOp op, std::size_t rows, std::size_t n, const float* bias, float* y, Element) {
  parallel(rows, 1, n, [&](std::size_t b, std::size_t e) {
    for (std::size_t r = b; r < e; ++r) kernels_.bias_activation(op, bias, y + r * n, n);
  });
}

void CpuTensors::bias_activation_gradient(UnaryOp op, std::size_t rows, std::size_t n, const float* y, float* dy,
                                          float* dbias, bool accumulate, Element) {
  parallel(n, vector_unit, rows, [&](std::size_t b, std::size_t e) {
    kernels_.bias_activation_gradient(op, rows, n, y + b, dy + b, dbias ? dbias + b : nullptr, e - b, accumulate);
  });
}

void CpuTensors::dropout(const DropoutMask& mask, const float* x, float* y, std::size_t count, bool accumulate,
                         Element) {
  constexpr std::size_t work = 8;  // of an element
  const auto first_of = [&](std::size_t column) {
    return static_cast<std::uint64_t>(mask.samples[column]) * mask.elements;
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
      while ((last + 1) * mask.elements < e && mask.samples[last + 1] == mask.samples[last] + 1) ++last;
      const std::size_t n = std::min(e, (last + 1) * mask.elements) - at;
      kernels_.dropout(mask, first_of(column) + at % mask.elements, x + at, y + at, n, accumulate);
      at += n;
    }
  });
}

}  // namespace tutti::cpu
