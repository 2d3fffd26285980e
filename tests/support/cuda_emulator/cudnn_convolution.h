// SPDX-License-Identifier: Apache-2.0
// cudnn_convolution.h -- convolutions of the emulator of cuDNN. One loop visits every product; the three directions
// differ in what they add to.
#pragma once

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cudnn_descriptors.h"
#include "queue.h"
#include "rounding.h"

struct CudnnDoubleFilter : CudnnDoubleTensor {};
struct CudnnDoubleConvolution {
  std::vector<int> pads, strides;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace cuda_emulator {

// Spatial sizes as three, the first ones 1.
inline std::array<int, 3> three(const std::vector<int>& dims, std::size_t from, int missing) {
  std::array<int, 3> r{missing, missing, missing};
  const std::size_t n = dims.size() - from;
  for (std::size_t i = 0; i < n; ++i) r[3 - n + i] = dims[from + i];
  return r;
}

// Strides of an array without gaps: as they count in memory, plain or with the second axis last.
inline std::vector<int> strides_of(const std::vector<int>& dims, bool last) {
  std::vector<int> strides(dims.size());
  int step = last ? dims[1] : 1;
  for (std::size_t axis = dims.size() - 1; axis > 1; step *= dims[axis], --axis) strides[axis] = step;
  strides[1] = last ? 1 : step;
  strides[0] = last ? step : step * dims[1];
  return strides;
}
inline bool lies_last(const CudnnDoubleTensor& t) { return t.strides == strides_of(t.dims, true); }
inline bool lies_plain(const CudnnDoubleTensor& t) { return t.strides == strides_of(t.dims, false); }

inline Stored stored(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT ? Stored::float32 : type == CUDNN_DATA_HALF ? Stored::half : Stored::bfloat16;
}

struct Operand {
  const void* values;
  std::size_t count;
};

struct Geometry {
  int columns, in, out, groups;
  std::array<int, 3> x, y, k, pad, stride;
  // From place to place in memory: of columns (or maps), channels, then the axes.
  std::array<int, 2> x_outer, y_outer, k_outer;
  std::array<int, 3> x_inner, y_inner, k_inner;
  cudnnDataType_t type;
  cudnnMathType_t math;
  int bits = 0;  // behind the point, of float32 that is read; 0 = all: tensor cores read it as tf32
  bool valid = false;

  Geometry(const CudnnDoubleTensor& xd, const CudnnDoubleFilter& wd, const CudnnDoubleConvolution& c,
           const CudnnDoubleTensor& yd) {
    math = c.math;
    columns = xd.dims[0], in = xd.dims[1], out = yd.dims[1], groups = c.groups;
    x = three(xd.dims, 2, 1), y = three(yd.dims, 2, 1), k = three(wd.dims, 2, 1);
    pad = three(c.pads, 0, 0), stride = three(c.strides, 0, 1);
    valid = xd.dims.size() >= 4 && xd.dims.size() == wd.dims.size() && yd.dims.size() == xd.dims.size() &&
            c.pads.size() + 2 == xd.dims.size() && yd.dims[0] == columns && wd.dims[0] == out &&
            wd.dims[1] * groups == in && out % groups == 0;
    for (std::size_t a = 0; a < 3; ++a) valid = valid && y[a] == (x[a] + 2 * pad[a] - k[a]) / stride[a] + 1;
    type = xd.type, bits = type == CUDNN_DATA_FLOAT && c.math != CUDNN_FMA_MATH ? bits_of_tf32 : 0;
    valid = valid && wd.type == type && yd.type == type;
    const bool plain = lies_plain(xd) && lies_plain(wd) && lies_plain(yd);
    valid = valid && (plain || (lies_last(xd) && lies_last(wd) && lies_last(yd)));
    // Tensor cores read whole 16 bytes of channels; the library would be slow.
    const int whole = type == CUDNN_DATA_FLOAT ? 4 : 8;
    if (!plain && groups == 1 && in < 8) valid = valid && in % whole == 0;
    const auto outer = [](const CudnnDoubleTensor& t) { return std::array<int, 2>{t.strides[0], t.strides[1]}; };
    x_outer = outer(xd), y_outer = outer(yd), k_outer = outer(wd);
    x_inner = three(xd.strides, 2, 0), y_inner = three(yd.strides, 2, 0), k_inner = three(wd.strides, 2, 0);
    work = type != CUDNN_DATA_FLOAT ? 4 : plain ? 24 : 12;
  }
  int work = 0;  // beside the one chunk that does everything: 16 bits with channels last are the fastest

  // An operand as the device reads it.
  std::vector<double> read(const Operand& o) const {
    std::vector<double> values(o.count);
    for (std::size_t i = 0; i < o.count; ++i) {
      const float v = number_at(o.values, i, stored(type));
      values[i] = bits ? rounded(v, bits) : v;
    }
    return values;
  }

  // use(index in x, index in w, index in y) for every product.
  template <class Use>
  void each(const Use& use) const {
    const int outs = out / groups;
    for (int n = 0; n < columns; ++n)
      for (int o = 0; o < out; ++o) {
        const int in_x = n * x_outer[0] + o / outs * (in / groups) * x_outer[1], in_y = n * y_outer[0] + o * y_outer[1];
        for (int a = 0; a < y[0]; ++a)
          for (int b = 0; b < y[1]; ++b)
            for (int c = 0; c < y[2]; ++c)
              of_window({a, b, c}, in_x, o * k_outer[0], in_y + a * y_inner[0] + b * y_inner[1] + c * y_inner[2], use);
      }
  }
  // Those that make one value of y: of all channels of its group, as far as its window lies within the image.
  template <class Use>
  void of_window(const std::array<int, 3>& at, int in_x, int in_w, int in_y, const Use& use) const {
    std::array<int, 3> from, to, first;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      first[axis] = at[axis] * stride[axis] - pad[axis];
      from[axis] = std::max(0, -first[axis]), to[axis] = std::min(k[axis], x[axis] - first[axis]);
    }
    for (int i = 0; i < in / groups; ++i, in_x += x_outer[1], in_w += k_outer[1])
      for (int e = from[0]; e < to[0]; ++e)
        for (int f = from[1]; f < to[1]; ++f)
          for (int g = from[2]; g < to[2]; ++g)
            use(in_x + (first[0] + e) * x_inner[0] + (first[1] + f) * x_inner[1] + (first[2] + g) * x_inner[2],
                in_w + e * k_inner[0] + f * k_inner[1] + g * k_inner[2], in_y);
  }
};

inline std::size_t elements(const CudnnDoubleTensor& t) {
  std::size_t n = 1;
  for (const int d : t.dims) n *= static_cast<std::size_t>(d);
  return n;
}

constexpr std::size_t workspace_bytes = 64;

// Into the queue: sums in double of products of two operands, at(index in x, index in w, index in y) says of which and
// where to, then alpha and beta, then finish(index, value). Before that the workspace is spoilt: nobody else may want
// what lies there. Then `idle` chunks that do nothing.
template <class At, class Finish>
cudnnStatus_t enqueue_convolution(cudaStream_t stream, const Geometry& g, const Operand& left, const Operand& right,
                                  std::size_t count, float a, float b, void* to, void* workspace, int idle,
                                  const At& at, const Finish& finish) {
  const cudaError_t status = enqueue(stream, [=] {
    if (workspace) std::memset(workspace, 0xee, workspace_bytes);
    std::vector<double> sums(count);
    const std::vector<double> l = g.read(left), r = g.read(right);
    g.each([&](int x, int w, int y) {
      const auto [i, j, to] = at(static_cast<std::size_t>(x), static_cast<std::size_t>(w), static_cast<std::size_t>(y));
      sums[to] += l[i] * r[j];
    });
    for (std::size_t i = 0; i < count; ++i) {
      const float before = b == 0.0f ? 0.0f : b * number_at(to, i, stored(g.type));
      set_number(to, i, stored(g.type), finish(i, a * static_cast<float>(sums[i]) + before));
    }
  });
  for (int i = 0; i < idle; ++i) enqueue(stream, [] {});
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
constexpr auto forwards = [](std::size_t x, std::size_t w, std::size_t y) { return std::array{x, w, y}; };
constexpr auto to_data = [](std::size_t x, std::size_t w, std::size_t y) { return std::array{y, w, x}; };
constexpr auto to_weights = [](std::size_t x, std::size_t w, std::size_t y) { return std::array{x, y, w}; };
constexpr auto as_it_is = [](std::size_t, float v) { return v; };

}  // namespace cuda_emulator
