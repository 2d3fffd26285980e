// SPDX-License-Identifier: Apache-2.0
#include "codec/column_decoders.h"
#include "codec/half_kernels.h"

namespace tutti::codec {

const Kernels* portable_kernels() {
  static constexpr Kernels kernels{"portable", encode_one_bit, encode_levels, decode, encode_halves, decode_halves};
  return &kernels;
}

}  // namespace tutti::codec
