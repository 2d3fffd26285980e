// SPDX-License-Identifier: Apache-2.0
// cudnn_lstm.h -- an LSTM over whole sequences by cuDNN: all steps are one call. Packed order is a layout that the
// library knows; sequences that run backwards are turned over before and behind it.
#pragma once

#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/lstm_weights.h"

namespace tutti::cuda {

// What layers share: free again when a call returns, because the stream keeps the order.
struct CudnnLstmScratch {
  Scratch workspace, gradients;
};

// For layers of one size.
class CudnnLstm {
 public:
  CudnnLstm(cudnnHandle_t, ComputeType, cudnnRNNAlgo_t, std::size_t cells, std::size_t inputs);

  // Whether the library can do this one by this algorithm. Says so before the calls below, which are for such layers.
  bool takes(const LstmLayer&);
  std::size_t room(const LstmLayer&) const;   // as Backend::lstm_room
  void tell(CudaBackend&, const LstmLayer&);  // as Backend::tell_lstm
  // What the library says to the calls: some sizes it refuses no earlier.
  cudnnStatus_t forward(CudaBackend&, const LstmLayer&, CudnnLstmScratch&);
  cudnnStatus_t backward(CudaBackend&, const LstmLayer&, const LstmLayerGradient&, CudnnLstmScratch&);

 private:
  // What stands where in the room of a layer, or behind each other in scratch memory.
  struct Places {
    std::size_t weights, reserve, output, cell, x, y, turned, total;
  };
  struct GradientPlaces {
    std::size_t weights, output, cell, x, x_turned, y, total;
  };
  // What the library reads and writes of a layer.
  struct Operands {
    float* weights;
    void* reserve;
    const float *x, *initial_output, *initial_cell;
    float* y;
  };
  Places places(const LstmLayer&) const;
  GradientPlaces gradient_places(const LstmLayer&, const LstmLayerGradient&) const;
  Operands operands(const LstmLayer&) const;
  GateWeights gates(float* weights, bool of_state) const;
  void describe(const LstmLayer&);
  void turn(CudaBackend&, const LstmLayer&, std::size_t width, const float* x, float* y) const;
  cudnnStatus_t data_gradient(CudaBackend&, const LstmLayer&, const LstmLayerGradient&, float* scratch,
                              void* workspace);
  cudnnStatus_t weight_gradient(CudaBackend&, const LstmLayer&, const LstmLayerGradient&, float* weights,
                                void* workspace);

  const cudnnHandle_t handle_;
  const std::size_t cells_, inputs_;
  DropoutDescriptor dropout_;
  RnnDescriptor rnn_;
  bool possible_ = false;
  std::size_t weight_bytes_ = 0;
  // Of the layer that was asked for last.
  RnnDataDescriptor x_, y_;
  TensorDescriptor states_;
  std::size_t workspace_bytes_ = 0, reserve_bytes_ = 0;
  std::vector<int> lengths_;
  std::vector<std::int32_t> turned_;  // by column, where the other direction has it; on its way to the room
};

}  // namespace tutti::cuda
