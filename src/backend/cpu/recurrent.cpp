// SPDX-License-Identifier: Apache-2.0
// Recurrent cells: rows dealt to the threads.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {

void CpuBackend::lstm_step(const LstmRows& r) {
  parallel(r.rows, 1, r.cells * 40, [&](std::size_t begin, std::size_t end) { kernels_.lstm_step(r, begin, end); });
}

void CpuBackend::lstm_step_gradient(const LstmRowsGradient& r) {
  parallel(r.rows, 1, r.cells * 40,
           [&](std::size_t begin, std::size_t end) { kernels_.lstm_step_gradient(r, begin, end); });
}

}  // namespace tutti::cpu
