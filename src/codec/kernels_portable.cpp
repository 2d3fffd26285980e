// SPDX-License-Identifier: Apache-2.0
#include "codec/column_kernels.h"

namespace tutti::codec {

const Kernels* portable_kernels() {
  static constexpr Kernels kernels{"portable", encode_one_bit, encode_levels, decode};
  return &kernels;
}

}  // namespace tutti::codec
