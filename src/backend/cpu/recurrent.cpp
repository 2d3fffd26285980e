// SPDX-License-Identifier: Apache-2.0
// Recurrent cells: rows dealt to the threads. Layers go step by step.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/lstm_steps.h"

namespace tutti::cpu {

void CpuBackend::lstm_step(const LstmRows& r) {
  parallel(r.rows, 1, r.cells * 40, [&](std::size_t begin, std::size_t end) { kernels_.lstm_step(r, begin, end); });
}

void CpuBackend::lstm_step_gradient(const LstmRowsGradient& r) {
  parallel(r.rows, 1, r.cells * 40,
           [&](std::size_t begin, std::size_t end) { kernels_.lstm_step_gradient(r, begin, end); });
}

std::size_t CpuBackend::lstm_room(const LstmLayer& l) { return lstm_steps_room(l); }
void CpuBackend::lstm(const LstmLayer& l) { lstm_by_steps(*this, l); }
void CpuBackend::lstm_gradient(const LstmLayer& l, const LstmLayerGradient& g) { lstm_gradient_by_steps(*this, l, g); }

}  // namespace tutti::cpu
