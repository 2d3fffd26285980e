// SPDX-License-Identifier: Apache-2.0
// the emulator of cuDNN. Parameters are checked as the library checks them, and measurements name algorithms that must
// not be taken first.
#include <cudnn.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cudnn_convolution.h"
#include "cudnn_descriptors.h"
#include "device.h"

struct CudnnDoubleActivation {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_SIGMOID;
};

namespace {

using namespace cuda_emulator;

constexpr int plain_sums = 1, of_tensor_cores = 2;  // algorithms

bool knows(int algorithm, cudnnMathType_t math) {
  return algorithm == plain_sums || (algorithm == of_tensor_cores && math != CUDNN_FMA_MATH);
}

// With checked parameters.
template <class At, class Finish>
cudnnStatus_t convolve(cudnnHandle_t handle, const Geometry& g, int algorithm, const Operand& left,
                       const Operand& right, std::size_t count, const void* alpha, const void* beta, void* to,
                       void* workspace, std::size_t bytes, const At& at, const Finish& finish) {
  if (!knows(algorithm, g.math)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!g.valid || bytes < workspace_bytes || !on_device(workspace, bytes)) return CUDNN_STATUS_BAD_PARAM;
  const float a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta);
  return enqueue_convolution(handle->stream, g, left, right, count, a, b, to, workspace, g.work, at, finish);
}

// First what must be passed over: an error, other bits every time, too much memory. What was asked for is measured, and
// what tensor cores do by default: with groups that alone, and more than there is without them. With groups of few
// channels in 16 bits the library stumbles.
template <class Performance>
cudnnStatus_t measured(const Geometry& g, int most, int* found, Performance* results) {
  using Algorithm = decltype(results->algo);
  if (breaks_capture()) return CUDNN_STATUS_INTERNAL_ERROR;
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
void cudnnGetLastErrorString(char* message, std::size_t most) { std::snprintf(message, most, "by the emulator"); }
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
  if (elements(*d) >= std::size_t{1} << 31) return CUDNN_STATUS_NOT_SUPPORTED;
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
  const auto channels = static_cast<std::size_t>(yd->dims[1]), channel_step = static_cast<std::size_t>(yd->strides[1]);
  if (xd->dims.size() > 4) return CUDNN_STATUS_NOT_SUPPORTED;
  if (activation->mode != CUDNN_ACTIVATION_RELU || !bias || !z || zd->dims != yd->dims || bd->dims[1] != yd->dims[1] ||
      elements(*bd) != channels || bd->type != yd->type || zd->type != yd->type ||
      *static_cast<const float*>(alpha2) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  return convolve(h, g, algorithm, {x, elements(*xd)}, {w, elements(*wd)}, elements(*yd), alpha, alpha2, y, space,
                  bytes, forwards, [=](std::size_t i, float v) {
                    const float sum = v + number_at(bias, i / channel_step % channels, stored(g.type));
                    return sum < 0 ? 0 : sum;
                  });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void* alpha, cudnnFilterDescriptor_t wd,
                                           const void* w, cudnnTensorDescriptor_t yd, const void* dy,
                                           cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void* space, std::size_t bytes, const void* beta, cudnnTensorDescriptor_t xd,
                                           void* dx) {
  const Geometry g(*xd, *wd, *c, *yd);
  return convolve(h, g, algorithm, {dy, elements(*yd)}, {w, elements(*wd)}, elements(*xd), alpha, beta, dx, space,
                  bytes, to_data, as_it_is);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t xd,
                                             const void* x, cudnnTensorDescriptor_t yd, const void* dy,
                                             cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* space, std::size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t wd, void* dw) {
  const Geometry g(*xd, *wd, *c, *yd);
  return convolve(h, g, algorithm, {x, elements(*xd)}, {dy, elements(*yd)}, elements(*wd), alpha, beta, dw, space,
                  bytes, to_weights, as_it_is);
}
