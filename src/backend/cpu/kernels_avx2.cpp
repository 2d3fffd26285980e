// SPDX-License-Identifier: Apache-2.0
// The vector kernels compiled for AVX2.
#include "backend/cpu/kernels.inl"

namespace tutti::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kernels = make_kernels("AVX2");
  return kernels;
}

}  // namespace tutti::cpu
