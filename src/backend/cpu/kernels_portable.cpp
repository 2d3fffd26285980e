// SPDX-License-Identifier: Apache-2.0
// The vector kernels compiled for x86-64-v2.
#include "backend/cpu/kernels.inl"

namespace tutti::cpu {

const Kernels& portable_kernels() {
  static constexpr Kernels kernels = make_kernels("x86-64-v2");
  return kernels;
}

}  // namespace tutti::cpu
