// SPDX-License-Identifier: Apache-2.0
// Recurrent cells: rows distributed to the threads. Layers go step by step.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/recurrent_steps.h"

namespace tutti::cpu {
namespace {

template <class R>
void distribute(void (*kernel)(const R&, std::size_t, std::size_t), const R& r) {
  parallel(r.rows, 1, r.cells * 40, [&](std::size_t begin, std::size_t end) { kernel(r, begin, end); });
}

}  // namespace

void CpuRecurrent::lstm_step(const LstmRows& r) { distribute(kernels_.lstm_step, r); }
void CpuRecurrent::lstm_step_gradient(const LstmRowsGradient& r) { distribute(kernels_.lstm_step_gradient, r); }
void CpuRecurrent::gru_step(const GruRows& r) { distribute(kernels_.gru_step, r); }
void CpuRecurrent::gru_step_gradient(const GruRowsGradient& r) { distribute(kernels_.gru_step_gradient, r); }
void CpuRecurrent::gru_reset(const GruRows& r) { distribute(kernels_.gru_reset, r); }
void CpuRecurrent::gru_reset_gradient(const GruRowsGradient& r) { distribute(kernels_.gru_reset_gradient, r); }

std::size_t CpuRecurrent::recurrent_layer_workspace(const RecurrentLayer& l) { return recurrent_steps_workspace(l); }
void CpuRecurrent::recurrent_layer(const RecurrentLayer& l) { recurrent_layer_by_steps(*this, l); }
void CpuRecurrent::recurrent_layer_gradient(const RecurrentLayer& l, const RecurrentLayerGradient& g) {
  recurrent_layer_gradient_by_steps(*this, l, g);
}

}  // namespace tutti::cpu
