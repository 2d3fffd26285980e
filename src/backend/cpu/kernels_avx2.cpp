// SPDX-License-Identifier: Apache-2.0
// The vector kernels compiled for AVX2.
#include "backend/cpu/kernels.inl"
// after the vectors
#include "backend/cpu/image_kernels.inl"

namespace tutti::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kernels = make_kernels("AVX2", avx2_image_kernels);
  return kernels;
}

const ImageKernels& avx2_image_kernels() {
  static constexpr ImageKernels kernels = make_image_kernels(8);
  return kernels;
}

}  // namespace tutti::cpu
