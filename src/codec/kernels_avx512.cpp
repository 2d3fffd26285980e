// SPDX-License-Identifier: Apache-2.0
#include "codec/column_decoders.h"
#include "codec/half_kernels.h"

namespace tutti::codec {

const Kernels* avx512_kernels() {
  static constexpr Kernels kernels{"AVX-512", encode_one_bit, encode_levels, decode, encode_halves, decode_halves};
  const bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return there ? &kernels : nullptr;
}

}  // namespace tutti::codec
