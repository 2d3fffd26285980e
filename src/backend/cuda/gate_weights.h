// SPDX-License-Identifier: Apache-2.0
// gate_weights.h -- the weights of a recurrent layer as cuDNN wants them, and their gradients back.
#pragma once

#include "base/cuda/runtime.h"
#include "tutti/recurrent.h"

namespace tutti::cuda {

// What multiplies the input, or the state, of each gate, in the order of gates_of(): cells x inputs, row after row.
struct GateWeights {
  unsigned gates;
  float *matrix[4], *bias[4];
};

// w has inputs x gates cells; without a bias there are zeros.
void give_weights(cudaStream_t, std::size_t cells, std::size_t inputs, const float* w, const float* bias,
                  const GateWeights&);
void take_gradients(cudaStream_t, std::size_t cells, std::size_t inputs, const GateWeights&, const GradientPlace& w,
                    const GradientPlace& bias);

}  // namespace tutti::cuda
