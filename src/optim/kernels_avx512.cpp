// SPDX-License-Identifier: Apache-2.0
// The element loops under the avx512 flags of meson.build.
#include "optim/kernels_impl.h"

namespace tutti::optim {

const Kernels& avx512_kernels() {
  static constexpr Kernels table = make_table("avx512");
  return table;
}

}  // namespace tutti::optim
