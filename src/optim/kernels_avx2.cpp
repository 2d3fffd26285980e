// SPDX-License-Identifier: Apache-2.0
// The element loops under the avx2 flags of meson.build.
#include "optim/kernels_impl.h"

namespace tutti::optim {

const Kernels& avx2_kernels() {
  static constexpr Kernels table = make_table("avx2");
  return table;
}

}  // namespace tutti::optim
