// SPDX-License-Identifier: Apache-2.0
#include "backend/recurrent_steps.h"

#include "backend/layer_steps.h"

namespace tutti {
namespace {

// The gates of a step are one call, and so are their gradients. An LSTM also keeps its cells.
class LstmSteps final : public LayerSteps {
 public:
  using LayerSteps::LayerSteps;

 private:
  Rows cells_before(const Part& p) const { return before(p, l_.initial_cell, beside(0)); }

  void forward_part(const Part& p) override {
    const std::size_t column = p.column;
    const Rows state = from_state(p), cell = cells_before(p);
    LstmRows rows;
    rows.rows = p.count, rows.cells = c_;
    rows.projected = projected(column);
    rows.from_state = state.at, rows.from_state_step = state.step;
    rows.cell_before = cell.at, rows.cell_before_step = cell.step;
    rows.gates = gates(column), rows.cell = beside(column);
    rows.output = l_.output + column * c_;
    backend_.lstm_step(rows);
  }

  void finish_forward() const override {
    if (!l_.last_cell) return;
    const PackedSteps& time = l_.time;
    for (std::size_t t = 0; t < time.steps(); ++t) {
      const std::size_t longer = l_.backwards ? 0 : time.width(t + 1), ends = time.width(t) - longer;
      if (ends > 0)
        backend_.map(UnaryOp::copy, beside(time.begin(t) + longer), l_.last_cell + longer * c_, ends * c_,
                     Element::float32);
      if (l_.backwards) return;
    }
  }

  void backward_part(const RecurrentLayerGradient& g, const Part& p) override {
    const std::size_t column = p.column;
    const Rows cell = cells_before(p);
    LstmRowsGradient rows;
    rows.rows = p.count, rows.cells = c_;
    rows.gates = gates(column), rows.cell = beside(column);
    rows.cell_before = cell.at, rows.cell_before_step = cell.step;
    rows.output_gradient = g.output + column * c_;
    rows.cell_gradient = carried_[0] + p.first * c_;
    rows.gates_gradient = gates_gradient_ + column * width();
    rows.cell_before_gradient = carried_[1] + p.first * c_;
    backend_.lstm_step_gradient(rows);
    if (!p.begins) {
      add_state_gradient(p.count, rows.gates_gradient, g.output + p.column_before * c_);
      return;
    }
    if (g.initial_cell)
      add_beginning_rows(backend_, g, p.first, p.count, rows.cell_before_gradient, c_, g.initial_cell);
    if (g.initial_output) add_initial_gradient(g, p, rows.gates_gradient);
  }
};

// A step is one call, or two around a product where the reset gate acts before it. A GRU also keeps GruRows::inner.
class GruSteps final : public LayerSteps {
 public:
  using LayerSteps::LayerSteps;

 private:
  bool reset_before() const { return l_.kind == CellKind::gru_reset_before; }

  // The product with the reset state, or with the gradient of its part of the gates.
  Gemm reset_product(const Part& p, std::size_t lda, std::size_t ldb, std::size_t ldc) const {
    Gemm product{.m = p.count, .n = c_, .k = c_, .lda = lda, .ldb = ldb, .ldc = ldc};
    product.b_version = l_.h_version;
    return product;
  }

  void forward_part(const Part& p) override {
    const std::size_t column = p.column;
    const Rows state = from_state(p), output = outputs_before(p);
    GruRows rows;
    rows.kind = l_.kind, rows.rows = p.count, rows.cells = c_;
    rows.projected = projected(column);
    rows.from_state = state.at, rows.from_state_step = state.step;
    rows.state_bias = l_.state_bias;
    rows.output_before = output.at, rows.output_before_step = output.step;
    rows.gates = gates(column), rows.inner = beside(column);
    rows.output = l_.output + column * c_;
    if (reset_before()) {
      backend_.gru_reset(rows);
      float* const from = from_state_ + p.first * width();
      rows.from_state = from, rows.from_state_step = width();
      backend_.gemm(reset_product(p, c_, width(), width()), rows.inner, l_.h + 2 * c_, from + 2 * c_);
    }
    backend_.gru_step(rows);
  }

  void backward_part(const RecurrentLayerGradient& g, const Part& p) override {
    const GruRowsGradient rows = gradients_of(g, p);
    backend_.gru_step_gradient(rows);
    if (reset_before()) {
      backend_.gemm(reset_product(p, width(), c_, c_), rows.gates_gradient + 2 * c_, transposed_ + 2 * c_ * c_,
                    reset_gradient_ + p.first * c_);
      backend_.gru_reset_gradient(rows);
    }
    const float* gates = reset_before() ? rows.gates_gradient : rows.from_state_gradient;
    if (!p.begins) {
      add_state_gradient(p.count, gates, rows.output_before_gradient);
    } else if (g.initial_output) {
      add_beginning_rows(backend_, g, p.first, p.count, rows.output_before_gradient, c_, g.initial_output);
      add_initial_gradient(g, p, gates);
    }
  }

  GruRowsGradient gradients_of(const RecurrentLayerGradient& g, const Part& p) const {
    const std::size_t column = p.column;
    const Rows output = outputs_before(p);
    GruRowsGradient rows;
    rows.kind = l_.kind, rows.rows = p.count, rows.cells = c_;
    rows.gates = gates(column), rows.inner = beside(column);
    rows.output_before = output.at, rows.output_before_step = output.step;
    rows.output_gradient = g.output + column * c_;
    rows.carried_gradient = carried_[0] + p.first * c_;
    rows.reset_gradient = reset_gradient_ + p.first * c_;
    rows.gates_gradient = gates_gradient_ + column * width();
    if (state_gradient_) rows.from_state_gradient = state_gradient_ + column * width();
    rows.output_before_gradient = carried_[1] + p.first * c_;
    return rows;
  }
};

template <class Work>
void with_steps(Backend& backend, const RecurrentLayer& l, const Work& work) {
  if (l.kind == CellKind::lstm) {
    LstmSteps steps(backend, l);
    work(steps);
  } else {
    GruSteps steps(backend, l);
    work(steps);
  }
}

}  // namespace

std::size_t recurrent_steps_workspace(const RecurrentLayer& l) { return LayerMemory(l).total_; }

void recurrent_layer_by_steps(Backend& backend, const RecurrentLayer& l) {
  with_steps(backend, l, [](LayerSteps& steps) { steps.forward(); });
}

void recurrent_layer_gradient_by_steps(Backend& backend, const RecurrentLayer& l, const RecurrentLayerGradient& g) {
  with_steps(backend, l, [&](LayerSteps& steps) { steps.backward(g); });
}

void add_beginning_rows(Backend& backend, const RecurrentLayerGradient& g, std::size_t first, std::size_t count,
                        const float* rows, std::size_t width, float* sum) {
  const auto add = [&](std::size_t row, std::size_t how_many) {
    Layout l;
    l.rank = 2, l.size = {width, how_many}, l.stride[0] = {1, width}, l.stride[3] = {1, 0};
    backend.copy(l, rows + row * width, sum, true);
  };
  if (g.begins.empty()) return add(0, count);
  for (std::size_t row = 0; row < count; ++row)
    if (g.begins[first + row]) add(row, 1);
}

}  // namespace tutti
