// SPDX-License-Identifier: Apache-2.0
// place.h -- which thread of which kernel runs now, and how far it has come: for who watches what it touches.
#pragma once

#include <cstdint>
#include <optional>

namespace cuda_double {

struct Place {
  std::uint64_t launch = 0;  // of all that there were
  std::uint32_t block = 0, thread = 0;
  std::uint32_t barriers = 0, warp_barriers = 0;  // behind which it is
};

// None where this thread of the host runs no kernel, or where what is touched lies on the own stack of the kernel's
// thread.
std::optional<Place> place(const void* touched = nullptr);

}  // namespace cuda_double
