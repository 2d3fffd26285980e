// SPDX-License-Identifier: Apache-2.0
#include <cpuid.h>

#include "codec/column_decoders.h"
#include "codec/half_kernels.h"

namespace tutti::codec {

namespace {

// clang has a name for it in later versions only.
bool converts_halves() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

const Kernels* avx2_kernels() {
  static constexpr Kernels kernels{"AVX2", encode_one_bit, encode_levels, decode, encode_halves, decode_halves};
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") ||
      !converts_halves())
    return nullptr;
  return &kernels;
}

}  // namespace tutti::codec
