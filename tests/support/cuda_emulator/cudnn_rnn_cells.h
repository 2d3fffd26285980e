// SPDX-License-Identifier: Apache-2.0
// cudnn_rnn_cells.h -- what the emulator of cuDNN's recurrent layers computes: LSTMs and GRUs by plain loops, sums in
// double. Called by cudnn_rnn_emulator.cpp when the queue comes to it.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <vector>

struct CudnnDoubleRnn {
  cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
  cudnnRNNMode_t mode = CUDNN_LSTM;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t inputs = 0, cells = 0;

  // Input, forget, candidate, output; or reset, update, candidate.
  std::size_t gates() const { return mode == CUDNN_LSTM ? 4 : 3; }
  std::size_t matrices() const { return 2 * gates(); }
  std::size_t width(std::size_t matrix) const { return matrix < gates() ? inputs : cells; }
};

namespace cuda_emulator {

// Offsets in the weights, in floats, by matrix: those that multiply the input, then those for the state. Gaps lie
// between them, so that nobody relies on there being none.
struct RnnWeights {
  std::vector<std::size_t> matrix, bias;
  std::size_t total = 0;
  explicit RnnWeights(const CudnnDoubleRnn&);
};

struct RnnSteps {
  std::size_t rows, steps, columns;
  std::vector<std::size_t> begins;
  explicit RnnSteps(const std::vector<int>& lengths);
  std::size_t width(std::size_t t) const { return t < steps ? begins[t + 1] - begins[t] : 0; }
};

// What the passes leave for each other: gates (and the candidate's product with the state, of a GRU), cells, gradients
// of the gates (and of that product).
struct RnnReserve {
  enum Stage { nothing, after_forward, after_data };
  static std::size_t floats(std::size_t columns, std::size_t cells);

  RnnReserve(void*, const RnnSteps&, std::size_t cells);
  void leave(Stage) const;
  void expect(Stage) const;  // or ends the test

  static constexpr std::size_t head = 4, blocks = 4;
  float *stamp, *gates, *states, *gradients;
  float expected[head];
};

struct RnnPass {
  CudnnDoubleRnn rnn;
  RnnSteps steps;
  RnnWeights at;
  const float *x, *y, *hx, *cx, *weights;

  void forward(float* y, float* hy, float* cy, const RnnReserve&) const;
  void backward_data(const float* dy, float* dx, float* dhx, float* dcx, const RnnReserve&) const;
  void backward_weights(float* dweights, const RnnReserve&) const;

 private:
  std::size_t c() const { return rnn.cells; }
  const float* before(const float* initial, const float* all, std::size_t t, std::size_t row) const;
  float weight(std::size_t matrix, std::size_t j, std::size_t k) const;
  double sum(std::size_t matrix, std::size_t j, const float* in) const;
  float back(bool to_state, std::size_t k, const float* gradients) const;
  std::size_t block(std::size_t matrix) const;
  void lstm_cell(std::size_t j, const float* x, const float* h, const float* cell, float* kept, float* now,
                 float* y) const;
  void gru_cell(std::size_t j, const float* x, const float* h, float* kept, float* y) const;
};

}  // namespace cuda_emulator
