// SPDX-License-Identifier: Apache-2.0
// The stand-in of cuDNN. One loop visits every product of a convolution; its three directions differ in what they add
// to. Parameters are checked as the library checks them, and measurements name algorithms that must not be taken first.
#include <cudnn.h>

#include <array>
#include <vector>

#include "queue.h"

struct CudnnDoubleHandle {
  cudaStream_t stream = nullptr;
};
struct CudnnDoubleTensor {
  std::vector<int> dims;
};
struct CudnnDoubleFilter {
  std::vector<int> dims;
};
struct CudnnDoubleConvolution {
  std::vector<int> pads, strides;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

// Spatial sizes as three, the first ones 1.
std::array<int, 3> three(const std::vector<int>& dims, std::size_t from, int missing) {
  std::array<int, 3> r{missing, missing, missing};
  const std::size_t n = dims.size() - from;
  for (std::size_t i = 0; i < n; ++i) r[3 - n + i] = dims[from + i];
  return r;
}

struct Geometry {
  int columns, in, out, groups;
  std::array<int, 3> x, y, k, pad, stride;
  bool valid = false;

  Geometry(const CudnnDoubleTensor& xd, const CudnnDoubleFilter& wd, const CudnnDoubleConvolution& c,
           const CudnnDoubleTensor& yd) {
    columns = xd.dims[0], in = xd.dims[1], out = yd.dims[1], groups = c.groups;
    x = three(xd.dims, 2, 1), y = three(yd.dims, 2, 1), k = three(wd.dims, 2, 1);
    pad = three(c.pads, 0, 0), stride = three(c.strides, 0, 1);
    valid = xd.dims.size() >= 4 && xd.dims.size() == wd.dims.size() && yd.dims.size() == xd.dims.size() &&
            c.pads.size() + 2 == xd.dims.size() && yd.dims[0] == columns && wd.dims[0] == out &&
            wd.dims[1] * groups == in && out % groups == 0;
    for (std::size_t a = 0; a < 3; ++a) valid = valid && y[a] == (x[a] + 2 * pad[a] - k[a]) / stride[a] + 1;
  }

  // use(index in x, index in w, index in y) for every product.
  template <class Use>
  void each(const Use& use) const {
    const int ins = in / groups, outs = out / groups;
    for (int n = 0; n < columns; ++n)
      for (int o = 0; o < out; ++o)
        for (int a = 0; a < y[0]; ++a)
          for (int b = 0; b < y[1]; ++b)
            for (int c = 0; c < y[2]; ++c)
              for (int i = 0; i < ins; ++i)
                for (int e = 0; e < k[0]; ++e)
                  for (int f = 0; f < k[1]; ++f)
                    for (int g = 0; g < k[2]; ++g) {
                      const int at0 = a * stride[0] - pad[0] + e, at1 = b * stride[1] - pad[1] + f,
                                at2 = c * stride[2] - pad[2] + g;
                      if (at0 < 0 || at0 >= x[0] || at1 < 0 || at1 >= x[1] || at2 < 0 || at2 >= x[2]) continue;
                      const int channel = o / outs * ins + i;
                      use((((n * in + channel) * x[0] + at0) * x[1] + at1) * x[2] + at2,
                          (((o * ins + i) * k[0] + e) * k[1] + f) * k[2] + g,
                          (((n * out + o) * y[0] + a) * y[1] + b) * y[2] + c);
                    }
  }
};

std::size_t elements(const std::vector<int>& dims) {
  std::size_t n = 1;
  for (const int d : dims) n *= static_cast<std::size_t>(d);
  return n;
}

constexpr std::size_t workspace_bytes = 64;

// Into the queue: sums in double, add(sums, index in x, index in w, index in y), then alpha and beta.
template <class Add>
cudnnStatus_t convolve(cudnnHandle_t handle, const Geometry& g, std::size_t count, const void* alpha, const void* beta,
                       void* to, const void* workspace, std::size_t bytes, const Add& add) {
  if (!g.valid || !workspace || bytes < workspace_bytes) return CUDNN_STATUS_BAD_PARAM;
  const float a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta);
  auto* y = static_cast<float*>(to);
  cuda_double::enqueue(handle->stream, [=] {
    std::vector<double> sums(count);
    g.each([&](int i, int k, int o) { add(sums, i, k, o); });
    for (std::size_t i = 0; i < count; ++i) y[i] = a * static_cast<float>(sums[i]) + (b == 0.0f ? 0.0f : b * y[i]);
  });
  return CUDNN_STATUS_SUCCESS;
}

// First what must be passed over: an error, other bits every time, too much memory.
template <class Performance>
cudnnStatus_t measured(bool valid, cudnnMathType_t math, int most, int* found, Performance* results) {
  using Algorithm = decltype(results->algo);
  if (!valid) return CUDNN_STATUS_BAD_PARAM;
  *found = most < 4 ? most : 4;
  const Performance all[4] = {
      {static_cast<Algorithm>(0), CUDNN_STATUS_BAD_PARAM, -1, 0, CUDNN_DETERMINISTIC, math},
      {static_cast<Algorithm>(0), CUDNN_STATUS_SUCCESS, 1, 0, CUDNN_NON_DETERMINISTIC, math},
      {static_cast<Algorithm>(0), CUDNN_STATUS_SUCCESS, 2, std::size_t{1} << 40, CUDNN_DETERMINISTIC, math},
      {static_cast<Algorithm>(1), CUDNN_STATUS_SUCCESS, 3, workspace_bytes, CUDNN_DETERMINISTIC, math}};
  for (int i = 0; i < *found; ++i) results[i] = all[i];
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace(int algorithm, std::size_t* bytes) {
  *bytes = workspace_bytes;
  return algorithm == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

template <class T>
cudnnStatus_t make(T** p) {
  *p = new T;
  return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t drop(T* p) {
  delete p;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t s) {
  return s == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM";
}
std::size_t cudnnGetVersion() { return 90000; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* p) { return make(p); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t p) { return drop(p); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream) {
  h->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* p) { return make(p); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t p) { return drop(p); }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t, int rank, const int* dims,
                                         const int* strides) {
  d->dims.assign(dims, dims + rank);
  int step = 1;
  for (int axis = rank - 1; axis >= 0; step *= dims[axis], --axis)
    if (strides[axis] != step || dims[axis] <= 0) return CUDNN_STATUS_BAD_PARAM;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* p) { return make(p); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t p) { return drop(p); }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t, cudnnTensorFormat_t, int rank,
                                         const int* dims) {
  d->dims.assign(dims, dims + rank);
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

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                   cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y, int most,
                                                   int* found, cudnnConvolutionFwdAlgoPerf_t* results) {
  return measured(Geometry(*x, *w, *c, *y).valid, c->math, most, found, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                        cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t c,
                                                        cudnnTensorDescriptor_t dx, int most, int* found,
                                                        cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return measured(Geometry(*dx, *w, *c, *dy).valid, c->math, most, found, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                          cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t c,
                                                          cudnnFilterDescriptor_t dw, int most, int* found,
                                                          cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return measured(Geometry(*x, *dw, *c, *dy).valid, c->math, most, found, results);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return workspace(algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                           cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return workspace(algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                             cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  return workspace(algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t xd, const void* x,
                                      cudnnFilterDescriptor_t wd, const void* w, cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t, void* space, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t yd, void* y) {
  const Geometry g(*xd, *wd, *c, *yd);
  const auto *from = static_cast<const float*>(x), *by = static_cast<const float*>(w);
  return convolve(h, g, elements(yd->dims), alpha, beta, y, space, bytes,
                  [from, by](std::vector<double>& sums, int i, int k, int o) {
                    static_cast<void>(i + k + o), sums[static_cast<std::size_t>(o)] += double{from[i]} * by[k];
                  });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void* alpha, cudnnFilterDescriptor_t wd,
                                           const void* w, cudnnTensorDescriptor_t yd, const void* dy,
                                           cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t, void* space,
                                           std::size_t bytes, const void* beta, cudnnTensorDescriptor_t xd, void* dx) {
  const Geometry g(*xd, *wd, *c, *yd);
  const auto *from = static_cast<const float*>(dy), *by = static_cast<const float*>(w);
  return convolve(h, g, elements(xd->dims), alpha, beta, dx, space, bytes,
                  [from, by](std::vector<double>& sums, int i, int k, int o) {
                    static_cast<void>(i + k + o), sums[static_cast<std::size_t>(i)] += double{from[o]} * by[k];
                  });
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t xd,
                                             const void* x, cudnnTensorDescriptor_t yd, const void* dy,
                                             cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t,
                                             void* space, std::size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t wd, void* dw) {
  const Geometry g(*xd, *wd, *c, *yd);
  const auto *from = static_cast<const float*>(x), *by = static_cast<const float*>(dy);
  return convolve(h, g, elements(wd->dims), alpha, beta, dw, space, bytes,
                  [from, by](std::vector<double>& sums, int i, int k, int o) {
                    static_cast<void>(i + k + o), sums[static_cast<std::size_t>(k)] += double{from[i]} * by[o];
                  });
}
