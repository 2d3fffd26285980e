// SPDX-License-Identifier: Apache-2.0
// place.h -- which thread of which kernel runs now, and how far it has come: for who watches what it touches. And how
// much shared memory there is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace cuda_emulator {

// What a block may have of shared memory, if its kernel asks for it: that of an H100.
constexpr std::size_t most_shared_memory = std::size_t{227} << 10;

struct Place {
  std::uint64_t launch = 0;  // of all that there were
  std::uint32_t block = 0, thread = 0;
  std::uint32_t barriers = 0, warp_barriers = 0;  // behind which it is
};

// None where this thread of the host runs no kernel, or where what is touched lies on the own stack of the kernel's
// thread.
std::optional<Place> place(const void* touched = nullptr);

}  // namespace cuda_emulator
