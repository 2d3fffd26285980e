// SPDX-License-Identifier: Apache-2.0
// cudnn_recurrence.h -- recurrent layers over whole sequences by cuDNN: one call for all steps. The library supports
// packed order; sequences that run backwards are reversed before and after the call. Its GRU applies the reset gate
// after the product.
#pragma once

#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn.h"

namespace tutti::cuda {

// The matrices of each gate for input and state, in the order of gates_of(): cells x inputs, row-major.
struct GateWeights {
  unsigned gates;
  float *matrix[4], *bias[4];
};

// Converts the weights of a layer to cuDNN's layout, and their gradients back. w has inputs x gates cells; zeros stand
// for a missing bias.
void give_weights(cudaStream_t, std::size_t cells, std::size_t inputs, const float* w, const float* bias,
                  const GateWeights&);
void take_gradients(cudaStream_t, std::size_t cells, std::size_t inputs, const GateWeights&, const GradientPlace& w,
                    const GradientPlace& bias);

// Shared by layers: free after a call, because the stream keeps the order.
struct CudnnRecurrenceScratch {
  Scratch workspace, gradients;
};

// For layers of one kind and size.
class CudnnRecurrence {
 public:
  CudnnRecurrence(cudnnHandle_t, ComputeType, cudnnRNNAlgo_t, CellKind, std::size_t cells, std::size_t inputs);

  // Whether the library supports the layer with this algorithm. Must be asked before the following calls.
  bool takes(const RecurrentLayer&);
  std::size_t workspace(const RecurrentLayer&) const;  // as Backend::recurrent_layer_workspace
  void tell(CudaTensors&, const RecurrentLayer&);      // as Backend::describe_recurrent_layer
  // The status of the calls: the library rejects some sizes only then.
  cudnnStatus_t forward(CudaTensors&, const RecurrentLayer&, CudnnRecurrenceScratch&);
  cudnnStatus_t backward(CudaTensors&, const RecurrentLayer&, const RecurrentLayerGradient&, CudnnRecurrenceScratch&);

 private:
  // Offsets in the workspace of a layer, or in scratch memory.
  struct Places {
    std::size_t weights, reserve, output, cell, x, y, turned, total;
  };
  struct GradientPlaces {
    std::size_t weights, output, cell, x, x_turned, y, total;
  };
  // The buffers of a layer that the library reads and writes.
  struct Operands {
    float* weights;
    void* reserve;
    const float *x, *initial_output, *initial_cell;
    float* y;
  };
  Places places(const RecurrentLayer&) const;
  GradientPlaces gradient_places(const RecurrentLayer&, const RecurrentLayerGradient&) const;
  Operands operands(const RecurrentLayer&) const;
  GateWeights gates(float* weights, bool of_state) const;
  void describe(const RecurrentLayer&);
  void turn(CudaTensors&, const RecurrentLayer&, std::size_t width, const float* x, float* y) const;
  cudnnStatus_t data_gradient(CudaTensors&, const RecurrentLayer&, const RecurrentLayerGradient&, float* scratch,
                              void* workspace);
  cudnnStatus_t weight_gradient(CudaTensors&, const RecurrentLayer&, const RecurrentLayerGradient&, float* weights,
                                void* workspace);

  const cudnnHandle_t handle_;
  const CellKind kind_;
  const std::size_t cells_, inputs_;
  DropoutDescriptor dropout_;
  RnnDescriptor rnn_;
  bool possible_ = false;
  std::size_t weight_bytes_ = 0;
  // Of the layer used last.
  RnnDataDescriptor x_, y_;
  TensorDescriptor states_;
  std::size_t workspace_bytes_ = 0, reserve_bytes_ = 0;
  std::vector<int> lengths_;
  std::vector<std::int32_t> turned_;  // by column, where the other direction has it; on its way to the workspace
};

}  // namespace tutti::cuda
