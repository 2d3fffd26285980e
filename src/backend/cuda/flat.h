// SPDX-License-Identifier: Apache-2.0
// flat.h -- kernels over contiguous values of any type, as many per thread as their alignment allows.
#pragma once

#include <type_traits>

#include "backend/cuda/lanes.h"

namespace tutti::cuda {

// Calls use(a value of the type, the number of values per thread) with constants.
template <class Use, class... P>
void flat(Element element, std::size_t count, const Use& use, const P*... p) {
  with_type(element, [&](auto number) {
    using T = decltype(number);
    if (in_whole_lanes<T>(count, p...))
      use(number, std::integral_constant<unsigned, whole_lanes<T>>{});
    else
      use(number, std::integral_constant<unsigned, 1>{});
  });
}

}  // namespace tutti::cuda
