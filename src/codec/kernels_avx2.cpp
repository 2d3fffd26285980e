// SPDX-License-Identifier: Apache-2.0
#include "codec/column_kernels.h"
#include "codec/half_kernels.h"

namespace tutti::codec {

const Kernels* avx2_kernels() {
  static constexpr Kernels kernels{"AVX2", encode_one_bit, encode_levels, decode, encode_halves, decode_halves};
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("f16c"))
    return nullptr;
  return &kernels;
}

}  // namespace tutti::codec
