// SPDX-License-Identifier: Apache-2.0
// An LSTM step by step: the gates of a step are one call, and so are their gradients.
#include "backend/layer_steps.h"
#include "backend/recurrent_steps.h"

namespace tutti {

LayerSteps::Rows LstmSteps::cells_before(const Part& p) const { return before(p, l_.initial_cell, beside(0)); }

void LstmSteps::forward_step(std::size_t t) {
  for (const Part& p : parts(t)) {
    if (p.count == 0) continue;
    multiply(p);
    const std::size_t column = l_.time.begin(t) + p.first;
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
}

void LstmSteps::finish_forward() const {
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

void LstmSteps::backward_step(const RecurrentLayerGradient& g, std::size_t t) {
  for (const Part& p : parts(t)) {
    if (p.count == 0) continue;
    const std::size_t column = l_.time.begin(t) + p.first;
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
      continue;
    }
    if (g.initial_cell)
      add_beginning_rows(backend_, g, p.first, p.count, rows.cell_before_gradient, c_, g.initial_cell);
    if (g.initial_output) add_initial_gradient(g, p, rows.gates_gradient);
  }
}

}  // namespace tutti
