// SPDX-License-Identifier: Apache-2.0
// place.h -- which thread of which kernel runs now, and how far it has come: for who watches what it touches.
#pragma once

#include <cstdint>

namespace cuda_double {

struct Place {
  std::uint64_t launch = 0;  // of all that there were
  std::uint32_t block = 0, thread = 0;
  std::uint32_t barriers = 0, warp_barriers = 0;  // behind which it is
};

// Whether this thread of the host is within a kernel.
bool in_kernel();
Place place();
// Whether these bytes are this thread's alone.
bool on_own_stack(const void*);

}  // namespace cuda_double
