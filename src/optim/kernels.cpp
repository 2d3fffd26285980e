// SPDX-License-Identifier: Apache-2.0
#include "optim/kernels.h"

#include "base/cuda_library.h"
#include "tutti/parameters.h"

namespace tutti::optim {

const Kernels& best_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512_kernels();
  if (__builtin_cpu_supports("avx2")) return avx2_kernels();
#endif
  return portable_kernels();
}

const Kernels& kernels_for(const FloatMemory& memory) {
  if (is_host(memory)) return best_kernels();
  return *cuda_function<const Kernels*()>("tutti_cuda_optim_kernels")();
}

}  // namespace tutti::optim
