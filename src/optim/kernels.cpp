// SPDX-License-Identifier: Apache-2.0
#include "optim/kernels.h"

namespace tutti::optim {

const Kernels& best_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512_kernels();
  if (__builtin_cpu_supports("avx2")) return avx2_kernels();
#endif
  return portable_kernels();
}

}  // namespace tutti::optim
