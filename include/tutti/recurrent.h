// SPDX-License-Identifier: Apache-2.0
// recurrent.h -- recurrent layers: one step for some rows, and a whole layer over sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

// Whether the reset gate of a GRU applies to the state before or after its product with the weight.
enum class CellKind { lstm, gru_reset_before, gru_reset_after };

// Blocks of `cells` columns in the weights. LSTM: input, candidate, forget, output. GRU: update, reset, candidate.
constexpr std::size_t gates_of(CellKind kind) { return kind == CellKind::lstm ? 4 : 3; }
// Floats kept per cell and column from forward to backward: the gates, and the cell of an LSTM or GruRows::inner.
constexpr std::size_t kept_of(CellKind kind) { return gates_of(kind) + 1; }

// One LSTM step for some rows (sequences) of `cells` elements. Row strides of inputs may be 0 to repeat one row.
// Results must not overlap inputs.
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

// One GRU step. With the reset gate before the product, gru_reset() computes the gates `update` and `reset` and the
// reset state; gru_step(), after the product with that state, computes the rest. Gradients run in the opposite order.
struct GruRows {
  CellKind kind = CellKind::gru_reset_after;
  std::size_t rows = 0, cells = 0;
  const float* projected = nullptr;   // rows x 3 cells: W x + b
  const float* from_state = nullptr;  // rows x 3 cells: H h'
  std::size_t from_state_step = 0;
  const float* state_bias = nullptr;     // 3 cells, added to from_state by gru_reset_after; null: none
  const float* output_before = nullptr;  // rows x cells
  std::size_t output_before_step = 0;
  float* gates = nullptr;   // rows x 3 cells, kept for the gradient
  float* inner = nullptr;   // rows x cells, kept: the input of the reset gate, or its result before the product
  float* output = nullptr;  // rows x cells
};
struct GruRowsGradient {
  CellKind kind = CellKind::gru_reset_after;
  std::size_t rows = 0, cells = 0;
  const float* gates = nullptr;
  const float* inner = nullptr;
  const float* output_before = nullptr;
  std::size_t output_before_step = 0;
  const float* output_gradient = nullptr;   // rows x cells
  const float* carried_gradient = nullptr;  // rows x cells, of the same values: from the following step
  const float* reset_gradient = nullptr;    // rows x cells, of the reset state: for gru_reset_gradient()
  float* gates_gradient = nullptr;          // rows x 3 cells, before the activations
  float* from_state_gradient = nullptr;     // rows x 3 cells with gru_reset_after; otherwise equal to gates_gradient
  float* output_before_gradient = nullptr;  // rows x cells, without the part that comes through H
};

// Sequences in packed order: step t is the columns [begins[t], begins[t + 1]), one for each sequence longer than t, the
// longest sequence first.
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

// A recurrent layer over sequences. The input part of the gates is computed outside (`projected`), or inside as W x +
// b.
struct RecurrentLayer {
  CellKind kind = CellKind::lstm;
  PackedSteps time;
  bool backwards = false;  // from the last step of each sequence to the first
  bool training = false;   // a gradient follows
  // The gradient of `projected` is accumulated or not wanted, so the gradient of the gates is computed in `workspace`.
  bool gates_gradient_apart = false;
  std::size_t cells = 0;

  const float* projected = nullptr;  // columns x gates() cells; null: computed from x and w
  const float* x = nullptr;          // columns x inputs
  std::size_t inputs = 0;
  const float* w = nullptr;     // inputs x gates() cells
  const float* bias = nullptr;  // gates() cells; null: none
  const float* h = nullptr;     // cells x gates() cells
  // gates() cells, added to the product with the state in gru_reset_after; null: none.
  const float* state_bias = nullptr;
  // Gemm::b_version of the weights.
  std::uint64_t w_version = 0, h_version = 0;

  // The initial state: one row of `cells` per sequence, or one row for all (stride 0). Cells are those of an LSTM.
  const float *initial_output = nullptr, *initial_cell = nullptr;
  std::size_t initial_step = 0;

  float* output = nullptr;     // columns x cells
  float* last_cell = nullptr;  // rows x cells: the cells after the last step; null: not wanted
  // Kept from forward to backward. `work` has kept_of() cells per column. If it is null, `workspace` of
  // Backend::recurrent_layer_workspace() floats, aligned like allocate(), holds it as well.
  float *work = nullptr, *workspace = nullptr;

  std::size_t gates() const { return gates_of(kind); }
};

// The destination of a gradient, and whether to accumulate. Null: not wanted.
struct GradientPlace {
  float* to = nullptr;
  bool add = false;
};
struct RecurrentLayerGradient {
  float* output = nullptr;   // the gradient of the result; overwritten
  GradientPlace projected;   // of a layer with `projected`
  GradientPlace x, w, bias;  // of one without
  GradientPlace h, state_bias;
  float *initial_output = nullptr, *initial_cell = nullptr;  // one row; the sum over the sequences is added
  // By row, if each has its own initial state: 0 for a state carried over, to which no gradient flows.
  std::span<const std::int32_t> begins;
};

class RecurrentOps {
 public:
  virtual ~RecurrentOps() = default;
  // Recurrent cells, and layers of them.
  virtual void lstm_step(const LstmRows&) = 0;
  virtual void lstm_step_gradient(const LstmRowsGradient&) = 0;
  virtual void gru_step(const GruRows&) = 0;
  virtual void gru_step_gradient(const GruRowsGradient&) = 0;
  // For gru_reset_before: call before the step, and after the gradient of the step.
  virtual void gru_reset(const GruRows&) = 0;
  virtual void gru_reset_gradient(const GruRowsGradient&) = 0;
  // Whether layers are faster if they compute W x + b themselves.
  virtual bool fuses_recurrent_inputs() const { return false; }
  // Does not follow pointers; checks only which are null.
  virtual std::size_t recurrent_layer_workspace(const RecurrentLayer&) = 0;
  // Does the host's part of the work. Call it before recurrent_layer(), which may be replayed from a captured graph
  // while the layer stays the same.
  virtual void describe_recurrent_layer(const RecurrentLayer&) {}
  virtual void recurrent_layer(const RecurrentLayer&) = 0;
  virtual void recurrent_layer_gradient(const RecurrentLayer&, const RecurrentLayerGradient&) = 0;
};

}  // namespace tutti
