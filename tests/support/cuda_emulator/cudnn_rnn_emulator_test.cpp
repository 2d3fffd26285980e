// SPDX-License-Identifier: Apache-2.0
// the emulator of cuDNN's recurrent layers refuses what the library does, with the same status.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cmath>
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

// A GRU of one cell over one step.
class OneCell {
 public:
  OneCell() {
    cudnnCreate(&handle_), cudnnCreateDropoutDescriptor(&dropout_), cudnnCreateRNNDescriptor(&layer_);
    cudnnCreateRNNDataDescriptor(&data_), cudnnCreateTensorDescriptor(&state_), cudnnCreateTensorDescriptor(&weight_);
    cudnnSetDropoutDescriptor(dropout_, handle_, 0, nullptr, 0, 0);
    EXPECT_EQ(cudnnSetRNNDescriptor_v8(layer_, CUDNN_RNN_ALGO_STANDARD, CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS,
                                       CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
                                       CUDNN_FMA_MATH, 1, 1, 1, 1, dropout_, CUDNN_RNN_PADDED_IO_DISABLED),
              CUDNN_STATUS_SUCCESS);
    const int one[] = {1, 1, 1};
    cudnnSetRNNDataDescriptor(data_, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 1, 1, 1, one, nullptr);
    cudnnSetTensorNdDescriptor(state_, CUDNN_DATA_FLOAT, 3, one, one);
    std::size_t reserve_bytes = 0;
    cudnnGetRNNWeightSpaceSize(handle_, layer_, &weight_bytes_);
    cudnnGetRNNTempSpaceSizes(handle_, layer_, CUDNN_FWD_MODE_INFERENCE, data_, &work_bytes_, &reserve_bytes);
    cudaMalloc(&weights_, weight_bytes_), cudaMalloc(&work_, work_bytes_), cudaMalloc(&memory_, 3 * sizeof(float));
  }
  ~OneCell() {
    for (void* p : {weights_, work_, memory_}) cudaFree(p);
    cudnnDestroyTensorDescriptor(state_), cudnnDestroyTensorDescriptor(weight_);
    cudnnDestroyRNNDataDescriptor(data_), cudnnDestroyRNNDescriptor(layer_), cudnnDestroyDropoutDescriptor(dropout_);
    cudnnDestroy(handle_);
  }
  cudnnStatus_t set(int number, float weight, float bias) {
    void *at_weight = nullptr, *at_bias = nullptr;
    const cudnnStatus_t status = cudnnGetRNNWeightParams(handle_, layer_, 0, weight_bytes_, weights_, number, weight_,
                                                         &at_weight, weight_, &at_bias);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    cudaMemcpy(at_weight, &weight, sizeof weight, cudaMemcpyHostToDevice);
    cudaMemcpy(at_bias, &bias, sizeof bias, cudaMemcpyHostToDevice);
    return status;
  }
  cudnnStatus_t forward(float x, float h, bool with_cells, float* y) {
    auto* const at = static_cast<float*>(memory_);
    cudaMemcpy(at, &x, sizeof x, cudaMemcpyHostToDevice), cudaMemcpy(at + 1, &h, sizeof h, cudaMemcpyHostToDevice);
    const cudnnStatus_t status = cudnnRNNForward(handle_, layer_, CUDNN_FWD_MODE_INFERENCE, nullptr, data_, at, data_,
                                                 at + 2, state_, at + 1, nullptr, state_, with_cells ? at + 1 : nullptr,
                                                 nullptr, weight_bytes_, weights_, work_bytes_, work_, 0, nullptr);
    cudaMemcpy(y, at + 2, sizeof *y, cudaMemcpyDeviceToHost);
    return status;
  }

 private:
  cudnnHandle_t handle_ = nullptr;
  cudnnDropoutDescriptor_t dropout_ = nullptr;
  cudnnRNNDescriptor_t layer_ = nullptr;
  cudnnRNNDataDescriptor_t data_ = nullptr;
  cudnnTensorDescriptor_t state_ = nullptr, weight_ = nullptr;
  std::size_t weight_bytes_ = 0, work_bytes_ = 0;
  void *weights_ = nullptr, *work_ = nullptr, *memory_ = nullptr;
};

// The reset gate acts on the product, which has a bias of its own.
TEST(CudnnRnnDouble, AGruIsTheOneOfTheLibrary) {
  OneCell gru;
  // Of the input, then of the state: reset, update, candidate; and what is added.
  const float w[] = {0.5f, -0.3f, 0.8f, 0.2f, 0.7f, -0.6f}, b[] = {0.1f, 0.2f, -0.4f, 0.3f, -0.1f, 0.9f};
  for (int i = 0; i < 6; ++i) ASSERT_EQ(gru.set(i, w[i], b[i]), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gru.set(6, 0, 0), CUDNN_STATUS_BAD_PARAM);
  float y = 0;
  EXPECT_EQ(gru.forward(1.5f, -0.7f, true, &y), CUDNN_STATUS_BAD_PARAM) << "it has no cells";
  ASSERT_EQ(gru.forward(1.5f, -0.7f, false, &y), CUDNN_STATUS_SUCCESS);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double r = sigmoid(0.5 * 1.5 + 0.1 + 0.2 * -0.7 + 0.3), u = sigmoid(-0.3 * 1.5 + 0.2 + 0.7 * -0.7 - 0.1);
  const double candidate = std::tanh(0.8 * 1.5 - 0.4 + r * (-0.6 * -0.7 + 0.9));
  EXPECT_NEAR(y, (1 - u) * candidate + u * -0.7, 1e-6);
}

}  // namespace
