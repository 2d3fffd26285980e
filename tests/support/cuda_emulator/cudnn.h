// SPDX-License-Identifier: Apache-2.0
// cudnn.h -- an emulator for the header of that name: the part of cuDNN that this project uses, written plainly on the
// host. Only arrays without gaps, plain or with their channels last, as the project describes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_runtime.h"

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
  CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004
};
enum cudnnDataType_t { CUDNN_DATA_FLOAT, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC };
enum cudnnActivationMode_t { CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_RELU };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION };
enum cudnnMathType_t {
  CUDNN_DEFAULT_MATH,
  CUDNN_TENSOR_OP_MATH,
  CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION,
  CUDNN_FMA_MATH
};
enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC, CUDNN_DETERMINISTIC };
enum cudnnConvolutionFwdAlgo_t {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED
};
enum cudnnConvolutionBwdDataAlgo_t {
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED
};
enum cudnnConvolutionBwdFilterAlgo_t {
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED
};
enum cudnnRNNAlgo_t { CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC };
enum cudnnForwardMode_t { CUDNN_FWD_MODE_INFERENCE, CUDNN_FWD_MODE_TRAINING };
enum cudnnRNNMode_t { CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU };
enum cudnnRNNBiasMode_t { CUDNN_RNN_NO_BIAS, CUDNN_RNN_SINGLE_INP_BIAS, CUDNN_RNN_DOUBLE_BIAS };
enum cudnnDirectionMode_t { CUDNN_UNIDIRECTIONAL, CUDNN_BIDIRECTIONAL };
enum cudnnRNNInputMode_t { CUDNN_LINEAR_INPUT, CUDNN_SKIP_INPUT };
enum cudnnRNNDataLayout_t { CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED };
enum cudnnWgradMode_t { CUDNN_WGRAD_MODE_ADD, CUDNN_WGRAD_MODE_SET };
constexpr unsigned CUDNN_RNN_PADDED_IO_DISABLED = 0;

using cudnnHandle_t = struct CudnnDoubleHandle*;

#include "cudnn_graph.h"

using cudnnTensorDescriptor_t = struct CudnnDoubleTensor*;
using cudnnFilterDescriptor_t = struct CudnnDoubleFilter*;
using cudnnConvolutionDescriptor_t = struct CudnnDoubleConvolution*;
using cudnnActivationDescriptor_t = struct CudnnDoubleActivation*;
using cudnnDropoutDescriptor_t = struct CudnnDoubleDropout*;
using cudnnRNNDescriptor_t = struct CudnnDoubleRnn*;
using cudnnRNNDataDescriptor_t = struct CudnnDoubleRnnData*;

template <class Algorithm>
struct CudnnDoublePerformance {
  Algorithm algo;
  cudnnStatus_t status;
  float time;
  std::size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
};
using cudnnConvolutionFwdAlgoPerf_t = CudnnDoublePerformance<cudnnConvolutionFwdAlgo_t>;
using cudnnConvolutionBwdDataAlgoPerf_t = CudnnDoublePerformance<cudnnConvolutionBwdDataAlgo_t>;
using cudnnConvolutionBwdFilterAlgoPerf_t = CudnnDoublePerformance<cudnnConvolutionBwdFilterAlgo_t>;

const char* cudnnGetErrorString(cudnnStatus_t);
void cudnnGetLastErrorString(char* message, std::size_t most);
std::size_t cudnnGetVersion();
cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnDestroy(cudnnHandle_t);
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t);

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t*);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t);
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t, cudnnDataType_t, int rank, const int* dims,
                                         const int* strides);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t*);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t);
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int rank,
                                         const int* dims);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t*);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t);
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t, int rank, const int* pads,
                                              const int* strides, const int* dilations, cudnnConvolutionMode_t,
                                              cudnnDataType_t);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t, int groups);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t);

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t*);
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t,
                                           double coefficient);

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                   cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y, int most,
                                                   int* found, cudnnConvolutionFwdAlgoPerf_t*);
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                        cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t,
                                                        cudnnTensorDescriptor_t dx, int most, int* found,
                                                        cudnnConvolutionBwdDataAlgoPerf_t*);
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                          cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t,
                                                          cudnnFilterDescriptor_t dw, int most, int* found,
                                                          cudnnConvolutionBwdFilterAlgoPerf_t*);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t, std::size_t* bytes);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t,
                                                           std::size_t* bytes);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                             cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgo_t,
                                                             std::size_t* bytes);
cudnnStatus_t cudnnConvolutionBiasActivationForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t,
                                                    const void* x, cudnnFilterDescriptor_t, const void* w,
                                                    cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t,
                                                    void* workspace, std::size_t bytes, const void* alpha2,
                                                    cudnnTensorDescriptor_t, const void* z, cudnnTensorDescriptor_t,
                                                    const void* bias, cudnnActivationDescriptor_t,
                                                    cudnnTensorDescriptor_t, void* y);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* x,
                                      cudnnFilterDescriptor_t, const void* w, cudnnConvolutionDescriptor_t,
                                      cudnnConvolutionFwdAlgo_t, void* workspace, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t, void* y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t, const void* w,
                                           cudnnTensorDescriptor_t, const void* dy, cudnnConvolutionDescriptor_t,
                                           cudnnConvolutionBwdDataAlgo_t, void* workspace, std::size_t bytes,
                                           const void* beta, cudnnTensorDescriptor_t, void* dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* x,
                                             cudnnTensorDescriptor_t, const void* dy, cudnnConvolutionDescriptor_t,
                                             cudnnConvolutionBwdFilterAlgo_t, void* workspace, std::size_t bytes,
                                             const void* beta, cudnnFilterDescriptor_t, void* dw);

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t*);
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t);
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t, float rate, void* states,
                                        std::size_t bytes, unsigned long long seed);

// LSTMs of one layer, in one direction, with two biases, over packed sequences.
cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t*);
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t);
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t, cudnnRNNAlgo_t, cudnnRNNMode_t, cudnnRNNBiasMode_t,
                                       cudnnDirectionMode_t, cudnnRNNInputMode_t, cudnnDataType_t data,
                                       cudnnDataType_t math, cudnnMathType_t, std::int32_t inputs, std::int32_t cells,
                                       std::int32_t projected, std::int32_t layers, cudnnDropoutDescriptor_t,
                                       std::uint32_t flags);
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t*);
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t);
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t, cudnnDataType_t, cudnnRNNDataLayout_t, int steps,
                                        int rows, int width, const int* lengths, void* padding);
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t, cudnnForwardMode_t,
                                        cudnnRNNDataDescriptor_t x, std::size_t* work, std::size_t* reserve);
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t, std::size_t* bytes);
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t, std::int32_t layer, std::size_t bytes,
                                      const void* weights, std::int32_t number, cudnnTensorDescriptor_t, void** matrix,
                                      cudnnTensorDescriptor_t, void** bias);
cudnnStatus_t cudnnRNNForward(cudnnHandle_t, cudnnRNNDescriptor_t, cudnnForwardMode_t, const std::int32_t* lengths,
                              cudnnRNNDataDescriptor_t, const void* x, cudnnRNNDataDescriptor_t, void* y,
                              cudnnTensorDescriptor_t, const void* hx, void* hy, cudnnTensorDescriptor_t,
                              const void* cx, void* cy, std::size_t weight_bytes, const void* weights,
                              std::size_t work_bytes, void* work, std::size_t reserve_bytes, void* reserve);
cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t, cudnnRNNDescriptor_t, const std::int32_t* lengths,
                                      cudnnRNNDataDescriptor_t, const void* y, const void* dy, cudnnRNNDataDescriptor_t,
                                      void* dx, cudnnTensorDescriptor_t, const void* hx, const void* dhy, void* dhx,
                                      cudnnTensorDescriptor_t, const void* cx, const void* dcy, void* dcx,
                                      std::size_t weight_bytes, const void* weights, std::size_t work_bytes, void* work,
                                      std::size_t reserve_bytes, void* reserve);
cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t, cudnnRNNDescriptor_t, cudnnWgradMode_t,
                                         const std::int32_t* lengths, cudnnRNNDataDescriptor_t, const void* x,
                                         cudnnTensorDescriptor_t, const void* hx, cudnnRNNDataDescriptor_t,
                                         const void* y, std::size_t weight_bytes, void* dweights,
                                         std::size_t work_bytes, void* work, std::size_t reserve_bytes, void* reserve);
