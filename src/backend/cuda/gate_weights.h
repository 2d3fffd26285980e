// SPDX-License-Identifier: Apache-2.0
// gate_weights.h -- converts the weights of a recurrent layer to cuDNN's layout, and their gradients back.
#pragma once

#include "base/cuda/runtime.h"
#include "tutti/recurrent.h"

namespace tutti::cuda {

// The matrices of each gate for input and state, in the order of gates_of(): cells x inputs, row-major.
struct GateWeights {
  unsigned gates;
  float *matrix[4], *bias[4];
};

// w has inputs x gates cells; zeros stand for a missing bias.
void give_weights(cudaStream_t, std::size_t cells, std::size_t inputs, const float* w, const float* bias,
                  const GateWeights&);
void take_gradients(cudaStream_t, std::size_t cells, std::size_t inputs, const GateWeights&, const GradientPlace& w,
                    const GradientPlace& bias);

}  // namespace tutti::cuda
