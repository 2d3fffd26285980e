// SPDX-License-Identifier: Apache-2.0
// layer_steps.h -- the common part of recurrent layers that run step by step. The input part of the gates is computed
// for all steps at once; each step multiplies the previous state by H and evaluates the gates. Backward passes the
// gradient of the gates to the input, and computes that of H as a product over all steps.
#pragma once

#include <cstddef>

#include "tutti/backend.h"

namespace tutti {

// The workspace of a layer, divided. Null: not needed, or the layer has no workspace yet.
struct LayerMemory {
  explicit LayerMemory(const RecurrentLayer&);
  std::size_t total_ = 0;  // floats
  float* from_state_;      // rows x width
  float* carried_[2];      // rows x cells
  float* reset_gradient_;  // rows x cells
  float* initial_gates_;   // one row: H times the common initial state
  float* transposed_;      // H', for all steps of backward
  float* spare_;           // columns x width: the input part, later the gradient of the gates
  float* state_gradient_;  // columns x width, for the product with the state, if that has its own gradients
  float* kept_;            // activated gates, then what is kept besides them; perhaps RecurrentLayer::work
};

class LayerSteps : protected LayerMemory {
 public:
  LayerSteps(Backend& backend, const RecurrentLayer& l) : LayerMemory(l), backend_(backend), l_(l), c_(l.cells) {}
  virtual ~LayerSteps() = default;

  void forward();
  void backward(const RecurrentLayerGradient&);

 protected:
  // Rows of a step that begin there, or continue from the step before.
  struct Part {
    bool begins;
    std::size_t first, count;
    std::size_t column, column_before;  // of the first row, and of the one that it continues
  };
  struct Rows {
    const float* at;
    std::size_t step;
  };

  // After multiply().
  virtual void forward_part(const Part&) = 0;
  virtual void finish_forward() const {}
  // carried_[0] receives the gradient from the following step, carried_[1] the one for the step before.
  virtual void backward_part(const RecurrentLayerGradient&, const Part&) = 0;

  // What the rows of a part read from the step before.
  Rows before(const Part&, const float* initial, const float* columns) const;
  Rows outputs_before(const Part& p) const { return before(p, l_.initial_output, l_.output); }
  // H times that.
  Rows from_state(const Part&) const;

  // Adds the contribution of gate gradients, `rows` of them, to the gradients of the outputs before.
  void add_state_gradient(std::size_t rows, const float* gates, float* to) const;
  // What add_state_gradient() adds, summed for a common initial state.
  void add_initial_gradient(const RecurrentLayerGradient&, const Part&, const float* gates) const;

  std::size_t width() const { return l_.gates() * c_; }
  // Blocks of H that multiply the state itself; the others multiply the reset state.
  std::size_t direct_gates() const { return l_.kind == CellKind::gru_reset_before ? 2 : l_.gates(); }
  const float* projected(std::size_t column) const { return (l_.projected ? l_.projected : spare_) + column * width(); }
  float* gates(std::size_t column) const { return kept_ + column * width(); }
  // What is kept besides the gates.
  float* beside(std::size_t column) const { return kept_ + l_.time.columns() * width() + column * c_; }

  Backend& backend_;
  const RecurrentLayer& l_;
  const std::size_t c_;
  float* gates_gradient_ = nullptr;  // columns x width

 private:
  // The step that step t continues from, and for how many rows.
  struct Before {
    std::size_t step, rows;
  };
  Before step_before(std::size_t t) const;
  template <class Use>
  void each_part(std::size_t t, const Use&) const;
  void multiply(const Part&) const;
  bool own_states() const { return l_.initial_step != 0; }
  Gemm input_product() const;
  Gemm state_product(std::size_t rows) const;
  void project() const;
  void transpose_weight() const;
  void take_states(float* to) const;
  void weight_gradients(const RecurrentLayerGradient&) const;
  void input_gradients(const RecurrentLayerGradient&) const;
};

}  // namespace tutti
