// SPDX-License-Identifier: Apache-2.0
// The element loops under the portable flags of meson.build.
#include "optim/kernels_impl.h"

namespace tutti::optim {

const Kernels& portable_kernels() {
  static constexpr Kernels table = make_table("portable");
  return table;
}

}  // namespace tutti::optim
