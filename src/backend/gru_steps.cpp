// SPDX-License-Identifier: Apache-2.0
// A GRU step by step: one call, or two around a product where the reset gate acts before it.
#include "backend/layer_steps.h"
#include "backend/recurrent_steps.h"

namespace tutti {

GruRows GruSteps::rows_of(std::size_t t, const Part& p) const {
  const std::size_t column = l_.time.begin(t) + p.first;
  const Rows state = from_state(p), output = outputs_before(p);
  GruRows rows;
  rows.kind = l_.kind, rows.rows = p.count, rows.cells = c_;
  rows.projected = projected(column);
  rows.from_state = state.at, rows.from_state_step = state.step;
  rows.state_bias = l_.state_bias;
  rows.output_before = output.at, rows.output_before_step = output.step;
  rows.gates = gates(column), rows.inner = beside(column);
  rows.output = l_.output + column * c_;
  return rows;
}

void GruSteps::forward_step(std::size_t t) {
  for (const Part& p : parts(t)) {
    if (p.count == 0) continue;
    multiply(p);
    GruRows rows = rows_of(t, p);
    if (reset_before()) {
      backend_.gru_reset(rows);
      rows.from_state = from_state_ + p.first * width(), rows.from_state_step = width();
      Gemm product{.m = p.count, .n = c_, .k = c_, .lda = c_, .ldb = width(), .ldc = width()};
      product.b_version = l_.h_version;
      backend_.gemm(product, rows.inner, l_.h + 2 * c_, from_state_ + p.first * width() + 2 * c_);
    }
    backend_.gru_step(rows);
  }
}

void GruSteps::backward_step(const RecurrentLayerGradient& g, std::size_t t) {
  for (const Part& p : parts(t)) {
    if (p.count == 0) continue;
    const GruRowsGradient rows = gradients_of(g, t, p);
    backend_.gru_step_gradient(rows);
    if (reset_before()) {
      Gemm product{.m = p.count, .n = c_, .k = c_, .lda = width(), .ldb = c_, .ldc = c_};
      product.b_version = l_.h_version;
      backend_.gemm(product, rows.gates_gradient + 2 * c_, transposed_ + 2 * c_ * c_, reset_gradient_ + p.first * c_);
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
}

GruRowsGradient GruSteps::gradients_of(const RecurrentLayerGradient& g, std::size_t t, const Part& p) const {
  const std::size_t column = l_.time.begin(t) + p.first;
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

}  // namespace tutti
