// SPDX-License-Identifier: Apache-2.0
// The stand-in of cuDNN's recurrent layers refuses what the library does, with the same status.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <vector>

namespace {

cudnnStatus_t describe(std::vector<int> lengths, int steps, cudnnRNNDataLayout_t layout) {
  cudnnRNNDataDescriptor_t d = nullptr;
  cudnnCreateRNNDataDescriptor(&d);
  const cudnnStatus_t status = cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, steps,
                                                         static_cast<int>(lengths.size()), 4, lengths.data(), nullptr);
  cudnnDestroyRNNDataDescriptor(d);
  return status;
}

TEST(CudnnRnnDouble, SequencesStandLongestFirstAndNoneIsEmpty) {
  constexpr auto packed = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  EXPECT_EQ(describe({3, 2, 2, 1}, 3, packed), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(describe({65535}, 65535, packed), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(describe({1, 2, 3}, 3, packed), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(describe({3, 2, 0}, 3, packed), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(describe({3, 2, 1}, 4, packed), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(describe({70000}, 70000, packed), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST(CudnnRnnDouble, FasterAlgorithmsWantTwoBiases) {
  cudnnHandle_t handle = nullptr;
  cudnnDropoutDescriptor_t dropout = nullptr;
  cudnnRNNDescriptor_t layer = nullptr;
  cudnnCreate(&handle);
  cudnnCreateDropoutDescriptor(&dropout);
  cudnnCreateRNNDescriptor(&layer);
  const auto set = [&](cudnnRNNBiasMode_t bias) {
    return cudnnSetRNNDescriptor_v8(layer, CUDNN_RNN_ALGO_PERSIST_STATIC, CUDNN_LSTM, bias, CUDNN_UNIDIRECTIONAL,
                                    CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 4, 5, 5, 1,
                                    dropout, CUDNN_RNN_PADDED_IO_DISABLED);
  };
  EXPECT_EQ(set(CUDNN_RNN_DOUBLE_BIAS), CUDNN_STATUS_BAD_PARAM) << "dropout has not been described";
  EXPECT_EQ(cudnnSetDropoutDescriptor(dropout, handle, 0, nullptr, 0, 0), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(CUDNN_RNN_DOUBLE_BIAS), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(CUDNN_RNN_SINGLE_INP_BIAS), CUDNN_STATUS_NOT_SUPPORTED);
  cudnnDestroyRNNDescriptor(layer);
  cudnnDestroyDropoutDescriptor(dropout);
  cudnnDestroy(handle);
}

}  // namespace
