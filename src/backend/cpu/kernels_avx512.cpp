// SPDX-License-Identifier: Apache-2.0
// The vector kernels compiled for AVX-512.
#include "backend/cpu/kernels.inl"
// after the vectors
#include "backend/cpu/image_kernels.inl"

namespace tutti::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kernels = make_kernels("AVX-512", avx512_image_kernels);
  return kernels;
}

const ImageKernels& avx512_image_kernels() {
  static constexpr ImageKernels kernels = make_image_kernels(16);
  return kernels;
}

}  // namespace tutti::cpu
