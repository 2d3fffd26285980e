// SPDX-License-Identifier: Apache-2.0
// The vector kernels compiled for AVX-512.
#include "backend/cpu/kernels.inl"

namespace tutti::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kernels = make_kernels("AVX-512");
  return kernels;
}

}  // namespace tutti::cpu
