// SPDX-License-Identifier: Apache-2.0
// Selects the kernels for this processor.
#include "backend/cpu/kernels.h"

namespace tutti::cpu {

const Kernels& best_kernels() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return avx512_kernels();
  if (__builtin_cpu_supports("avx2")) return avx2_kernels();
#endif
  return portable_kernels();
}

}  // namespace tutti::cpu
