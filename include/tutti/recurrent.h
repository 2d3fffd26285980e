// SPDX-License-Identifier: Apache-2.0
// recurrent.h -- recurrent layers as backends compute them: one step for some rows, and a whole layer over sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

// One step of an LSTM for some rows (sequences) of `cells` elements; gates in the order input, candidate, forget,
// output. What a row reads may stand still: steps of 0 repeat one row. Results must not overlap what is read.
struct LstmRows {
  std::size_t rows = 0, cells = 0;
  const float* projected = nullptr;   // rows x 4 cells: W x + b
  const float* from_state = nullptr;  // rows x 4 cells: H h'
  std::size_t from_state_step = 0;
  const float* cell_before = nullptr;  // rows x cells
  std::size_t cell_before_step = 0;
  float* gates = nullptr;   // rows x 4 cells, kept for the gradient
  float* cell = nullptr;    // rows x cells
  float* output = nullptr;  // rows x cells
};
struct LstmRowsGradient {
  std::size_t rows = 0, cells = 0;
  const float* gates = nullptr;
  const float* cell_before = nullptr;
  std::size_t cell_before_step = 0;
  const float* cell = nullptr;
  const float* output_gradient = nullptr;  // rows x cells
  const float* cell_gradient = nullptr;    // rows x cells, from the following step
  float* gates_gradient = nullptr;         // rows x 4 cells, before the activations
  float* cell_before_gradient = nullptr;   // rows x cells
};

// Sequences in packed order: step t is the columns [begins[t], begins[t + 1]), one for each sequence that is longer
// than t, the longest sequence first.
struct PackedSteps {
  std::span<const std::size_t> begins;  // steps + 1

  std::size_t steps() const { return begins.size() - 1; }
  std::size_t begin(std::size_t step) const { return begins[step]; }
  std::size_t width(std::size_t step) const {
    return step < steps() ? begins[step + 1] - begins[step] : std::size_t{0};
  }
  std::size_t rows() const { return width(0); }  // sequences that are not empty
  std::size_t columns() const { return begins.back(); }
};

// An LSTM over sequences. The part of the gates that comes from the input is made outside, or W x + b within.
struct LstmLayer {
  PackedSteps time;
  bool backwards = false;  // from the last step of each sequence to the first
  bool training = false;   // a gradient follows
  // The gradient of `projected` is added to something, or not wanted: that of the gates is made in `room`.
  bool gates_gradient_apart = false;
  std::size_t cells = 0;

  const float* projected = nullptr;  // columns x 4 cells; null: x and w make it
  const float* x = nullptr;          // columns x inputs
  std::size_t inputs = 0;
  const float* w = nullptr;     // inputs x 4 cells
  const float* bias = nullptr;  // 4 cells; null: none
  const float* h = nullptr;     // cells x 4 cells
  // Gemm::b_version of the weights.
  std::uint64_t w_version = 0, h_version = 0;

  // Where sequences begin from: a row of `cells` for each of them, or one for all (a step of 0).
  const float *initial_output = nullptr, *initial_cell = nullptr;
  std::size_t initial_step = 0;

  float* output = nullptr;     // columns x cells
  float* last_cell = nullptr;  // rows x cells: the cells behind the last step that is taken; null: not wanted
  // Kept from forward to backward. `work` has 5 cells for each column; null: `room`, of Backend::lstm_room() floats and
  // as well aligned as what allocate() gives, has place for that as well.
  float *work = nullptr, *room = nullptr;
};

// Where a gradient goes, and whether it is added to what stands there. Null: it is not wanted.
struct GradientPlace {
  float* to = nullptr;
  bool add = false;
};
struct LstmLayerGradient {
  float* output = nullptr;   // the gradient of the result; its memory is used up
  GradientPlace projected;   // of a layer with `projected`
  GradientPlace x, w, bias;  // of one without
  GradientPlace h;
  float *initial_output = nullptr, *initial_cell = nullptr;  // one row, which gets the sum of the sequences added
  // By row, where each has a state of its own: 0 where that has been carried over, and no gradient flows to.
  std::span<const std::int32_t> begins;
};

}  // namespace tutti
