// SPDX-License-Identifier: Apache-2.0
// The stand-in of cuDNN. One loop visits every product of a convolution; its three directions differ in what they add
// to. Parameters are checked as the library checks them, and measurements name algorithms that must not be taken first.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cudnn_descriptors.h"
#include "device.h"
#include "queue.h"
#include "rounding.h"

struct CudnnDoubleFilter : CudnnDoubleTensor {};
struct CudnnDoubleActivation {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_SIGMOID;
};
struct CudnnDoubleConvolution {
  std::vector<int> pads, strides;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

using cuda_double::drop;
using cuda_double::make;

// Spatial sizes as three, the first ones 1.
std::array<int, 3> three(const std::vector<int>& dims, std::size_t from, int missing) {
  std::array<int, 3> r{missing, missing, missing};
  const std::size_t n = dims.size() - from;
  for (std::size_t i = 0; i < n; ++i) r[3 - n + i] = dims[from + i];
  return r;
}

// Strides of an array without gaps: as they count in memory, plain or with the second axis last.
std::vector<int> strides_of(const std::vector<int>& dims, bool last) {
  std::vector<int> strides(dims.size());
  int step = last ? dims[1] : 1;
  for (std::size_t axis = dims.size() - 1; axis > 1; step *= dims[axis], --axis) strides[axis] = step;
  strides[1] = last ? 1 : step;
  strides[0] = last ? step : step * dims[1];
  return strides;
}
bool lies_last(const CudnnDoubleTensor& t) { return t.strides == strides_of(t.dims, true); }
bool lies_plain(const CudnnDoubleTensor& t) { return t.strides == strides_of(t.dims, false); }

float value_at(const void* p, int i, cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return static_cast<const float*>(p)[i];
    case CUDNN_DATA_HALF:
      return __half2float(static_cast<const __half*>(p)[i]);
    case CUDNN_DATA_BFLOAT16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
  }
  return 0;
}
void set_value(void* p, std::size_t i, cudnnDataType_t type, float v) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      static_cast<float*>(p)[i] = v;
      return;
    case CUDNN_DATA_HALF:
      static_cast<__half*>(p)[i] = __float2half_rn(v);
      return;
    case CUDNN_DATA_BFLOAT16:
      static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16_rn(v);
  }
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
  bool rounds = false;  // tensor cores read float32 as tf32
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
    type = xd.type, rounds = type == CUDNN_DATA_FLOAT && c.math != CUDNN_FMA_MATH;
    valid = valid && wd.type == type && yd.type == type;
    const bool plain = lies_plain(xd) && lies_plain(wd) && lies_plain(yd);
    valid = valid && (plain || (lies_last(xd) && lies_last(wd) && lies_last(yd)));
    // Tensor cores read whole 16 bytes of channels; the library would be slow.
    const int whole = type == CUDNN_DATA_FLOAT ? 4 : 8;
    if (!plain && groups == 1 && in < 8) valid = valid && in % whole == 0;
    const auto outer = [](const CudnnDoubleTensor& t) { return std::array<int, 2>{t.strides[0], t.strides[1]}; };
    x_outer = outer(xd), y_outer = outer(yd), k_outer = outer(wd);
    x_inner = three(xd.strides, 2, 0), y_inner = three(yd.strides, 2, 0), k_inner = three(wd.strides, 2, 0);
    work = type != CUDNN_DATA_FLOAT ? 0 : plain ? 20 : 8;
  }
  int work = 0;  // beside the one piece that does everything: 16 bits with channels last are the fastest

  // An operand as the device reads it.
  std::vector<double> read(const Operand& o) const {
    std::vector<double> values(o.count);
    for (std::size_t i = 0; i < o.count; ++i) {
      const float v = value_at(o.values, static_cast<int>(i), type);
      values[i] = rounds ? cuda_double::rounded(v, cuda_double::bits_of_tf32) : v;
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

std::size_t elements(const CudnnDoubleTensor& t) {
  std::size_t n = 1;
  for (const int d : t.dims) n *= static_cast<std::size_t>(d);
  return n;
}

constexpr std::size_t workspace_bytes = 64;
constexpr int plain_sums = 1, of_tensor_cores = 2;  // algorithms

bool knows(int algorithm, cudnnMathType_t math) {
  return algorithm == plain_sums || (algorithm == of_tensor_cores && math != CUDNN_FMA_MATH);
}

// Into the queue: sums in double of products of two operands, at(index in x, index in w, index in y) says of which and
// where to, then alpha and beta, then finish(index, value). Before that the workspace is spoilt: nobody else may want
// what lies there.
template <class At, class Finish>
cudnnStatus_t convolve(cudnnHandle_t handle, const Geometry& g, int algorithm, const Operand& left,
                       const Operand& right, std::size_t count, const void* alpha, const void* beta, void* to,
                       void* workspace, std::size_t bytes, const At& at, const Finish& finish) {
  if (!knows(algorithm, g.math)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!g.valid || bytes < workspace_bytes || !cuda_double::on_device(workspace, bytes)) return CUDNN_STATUS_BAD_PARAM;
  const float a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta);
  cuda_double::enqueue(handle->stream, [=] {
    std::memset(workspace, 0xee, workspace_bytes);
    std::vector<double> sums(count);
    const std::vector<double> l = g.read(left), r = g.read(right);
    g.each([&](int x, int w, int y) {
      const auto [i, j, to] = at(static_cast<std::size_t>(x), static_cast<std::size_t>(w), static_cast<std::size_t>(y));
      sums[to] += l[i] * r[j];
    });
    for (std::size_t i = 0; i < count; ++i) {
      const float before = b == 0.0f ? 0.0f : b * value_at(to, static_cast<int>(i), g.type);
      set_value(to, i, g.type, finish(i, a * static_cast<float>(sums[i]) + before));
    }
  });
  for (int i = 0; i < g.work; ++i) cuda_double::enqueue(handle->stream, [] {});
  return CUDNN_STATUS_SUCCESS;
}
constexpr auto forwards = [](std::size_t x, std::size_t w, std::size_t y) { return std::array{x, w, y}; };
constexpr auto as_it_is = [](std::size_t, float v) { return v; };

// First what must be passed over: an error, other bits every time, too much memory. What was asked for is measured, and
// what tensor cores do by default: with groups that alone, and more than there is without them. With groups of few
// channels in 16 bits the library stumbles.
template <class Performance>
cudnnStatus_t measured(const Geometry& g, int most, int* found, Performance* results) {
  using Algorithm = decltype(results->algo);
  if (cuda_double::breaks_capture()) return CUDNN_STATUS_INTERNAL_ERROR;
  if (!g.valid) return CUDNN_STATUS_BAD_PARAM;
  if (g.type != CUDNN_DATA_FLOAT && g.groups > 1 && g.in < 8) return CUDNN_STATUS_INTERNAL_ERROR;
  const auto takes = [](int algorithm, float time, cudnnMathType_t math) {
    return Performance{
        static_cast<Algorithm>(algorithm), CUDNN_STATUS_SUCCESS, time, workspace_bytes, CUDNN_DETERMINISTIC, math};
  };
  std::vector<Performance> all = {
      {static_cast<Algorithm>(0), CUDNN_STATUS_BAD_PARAM, -1, 0, CUDNN_DETERMINISTIC, g.math},
      {static_cast<Algorithm>(0), CUDNN_STATUS_SUCCESS, 1, 0, CUDNN_NON_DETERMINISTIC, g.math},
      {static_cast<Algorithm>(0), CUDNN_STATUS_SUCCESS, 2, std::size_t{1} << 40, CUDNN_DETERMINISTIC, g.math}};
  if (g.math == CUDNN_FMA_MATH) all.push_back(takes(of_tensor_cores, 3, CUDNN_DEFAULT_MATH));
  all.push_back(takes(plain_sums, 4, g.math == CUDNN_FMA_MATH && g.groups > 1 ? CUDNN_DEFAULT_MATH : g.math));
  *found = std::min(most, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *found, results);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace(cudnnConvolutionDescriptor_t c, int algorithm, std::size_t* bytes) {
  *bytes = workspace_bytes;
  return knows(algorithm, c->math) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t s) {
  return s == CUDNN_STATUS_SUCCESS          ? "CUDNN_STATUS_SUCCESS"
         : s == CUDNN_STATUS_BAD_PARAM      ? "CUDNN_STATUS_BAD_PARAM"
         : s == CUDNN_STATUS_INTERNAL_ERROR ? "CUDNN_STATUS_INTERNAL_ERROR"
                                            : "CUDNN_STATUS_NOT_SUPPORTED";
}
void cudnnGetLastErrorString(char* message, std::size_t most) { std::snprintf(message, most, "by the stand-in"); }
std::size_t cudnnGetVersion() { return 90000; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* p) { return make(p); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t p) { return drop(p); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream) {
  h->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* p) { return make(p); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t p) { return drop(p); }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int rank, const int* dims,
                                         const int* strides) {
  d->dims.assign(dims, dims + rank), d->strides.assign(strides, strides + rank), d->type = type;
  if (std::any_of(dims, dims + rank, [](int size) { return size <= 0; })) return CUDNN_STATUS_BAD_PARAM;
  return lies_plain(*d) || lies_last(*d) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* p) { return make(p); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t p) { return drop(p); }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int rank, const int* dims) {
  d->dims.assign(dims, dims + rank), d->type = type;
  d->strides = strides_of(d->dims, format == CUDNN_TENSOR_NHWC);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* p) { return make(p); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t p) { return drop(p); }
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int rank, const int* pads,
                                              const int* strides, const int* dilations, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t) {
  d->pads.assign(pads, pads + rank), d->strides.assign(strides, strides + rank);
  for (int i = 0; i < rank; ++i)
    if (dilations[i] != 1 || pads[i] < 0 || strides[i] < 1) return CUDNN_STATUS_BAD_PARAM;
  return mode == CUDNN_CROSS_CORRELATION ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  d->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  d->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* p) { return make(p); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t p) { return drop(p); }
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t, double) {
  d->mode = mode;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                   cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y, int most,
                                                   int* found, cudnnConvolutionFwdAlgoPerf_t* results) {
  return measured(Geometry(*x, *w, *c, *y), most, found, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                        cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t c,
                                                        cudnnTensorDescriptor_t dx, int most, int* found,
                                                        cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return measured(Geometry(*dx, *w, *c, *dy), most, found, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                          cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t c,
                                                          cudnnFilterDescriptor_t dw, int most, int* found,
                                                          cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return measured(Geometry(*x, *dw, *c, *dy), most, found, results);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return workspace(c, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t c,
                                                           cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return workspace(c, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t c,
                                                             cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  return workspace(c, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t xd, const void* x,
                                      cudnnFilterDescriptor_t wd, const void* w, cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* space, std::size_t bytes,
                                      const void* beta, cudnnTensorDescriptor_t yd, void* y) {
  const Geometry g(*xd, *wd, *c, *yd);
  return convolve(h, g, algorithm, {x, elements(*xd)}, {w, elements(*wd)}, elements(*yd), alpha, beta, y, space, bytes,
                  forwards, as_it_is);
}
// There is none for images of three axes.
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t xd, const void* x, cudnnFilterDescriptor_t wd,
    const void* w, cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algorithm, void* space, std::size_t bytes,
    const void* alpha2, cudnnTensorDescriptor_t zd, const void* z, cudnnTensorDescriptor_t bd, const void* bias,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t yd, void* y) {
  const Geometry g(*xd, *wd, *c, *yd);
  const int channels = yd->dims[1], channel_step = yd->strides[1];
  if (xd->dims.size() > 4) return CUDNN_STATUS_NOT_SUPPORTED;
  if (activation->mode != CUDNN_ACTIVATION_RELU || !bias || !z || zd->dims != yd->dims || bd->dims[1] != channels ||
      elements(*bd) != static_cast<std::size_t>(channels) || bd->type != yd->type || zd->type != yd->type ||
      *static_cast<const float*>(alpha2) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  return convolve(h, g, algorithm, {x, elements(*xd)}, {w, elements(*wd)}, elements(*yd), alpha, alpha2, y, space,
                  bytes, forwards, [=](std::size_t i, float v) {
                    const float sum = v + value_at(bias, static_cast<int>(i) / channel_step % channels, g.type);
                    return sum < 0 ? 0 : sum;
                  });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void* alpha, cudnnFilterDescriptor_t wd,
                                           const void* w, cudnnTensorDescriptor_t yd, const void* dy,
                                           cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void* space, std::size_t bytes, const void* beta, cudnnTensorDescriptor_t xd,
                                           void* dx) {
  const Geometry g(*xd, *wd, *c, *yd);
  return convolve(
      h, g, algorithm, {dy, elements(*yd)}, {w, elements(*wd)}, elements(*xd), alpha, beta, dx, space, bytes,
      [](std::size_t x, std::size_t w, std::size_t y) {
        return std::array{y, w, x};
      },
      as_it_is);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t xd,
                                             const void* x, cudnnTensorDescriptor_t yd, const void* dy,
                                             cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* space, std::size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t wd, void* dw) {
  const Geometry g(*xd, *wd, *c, *yd);
  return convolve(
      h, g, algorithm, {x, elements(*xd)}, {dy, elements(*yd)}, elements(*wd), alpha, beta, dw, space, bytes,
      [](std::size_t x, std::size_t w, std::size_t y) {
        return std::array{x, y, w};
      },
      as_it_is);
}
