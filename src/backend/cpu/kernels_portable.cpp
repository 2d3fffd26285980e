// SPDX-License-Identifier: Apache-2.0
// The vector kernels compiled for x86-64-v2.
#include "backend/cpu/kernels.inl"
// after the vectors
#include "backend/cpu/image_kernels.inl"

namespace tutti::cpu {

const Kernels& portable_kernels() {
  static constexpr Kernels kernels = make_kernels("x86-64-v2", portable_image_kernels);
  return kernels;
}

const ImageKernels& portable_image_kernels() {
  static constexpr ImageKernels kernels = make_image_kernels(8);
  return kernels;
}

}  // namespace tutti::cpu
