// SPDX-License-Identifier: Apache-2.0
// device_words.h -- the words of the CUDA language and the device functions that kernels use, for the emulator of the
// runtime. Here, and only here, they have to be macros: that is how the language spells them.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
// Blocks run one at a time on each host thread, so a block's memory may be the thread's. In a function that is static
// without saying so; memory that a launch asks for is declared extern.
#define __shared__ thread_local

namespace cuda_emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
void block_barrier();
// What every lane of the warp passed; lanes that do not take part have 0.
struct Exchange {
  std::uint64_t value[32] = {};
  std::uint32_t present = 0;
};
// Lanes meet in the same call by the same mask; those of the mask that have not left the kernel all come.
enum class Collective { barrier, shuffle };
const Exchange& exchange(Collective, std::uint32_t mask, std::uint64_t mine);
unsigned lane();

// What a lane that is not there would have passed is anything.
template <class T>
T from_lane(unsigned mask, T mine, unsigned source) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &mine, sizeof mine);
  const Exchange& all = exchange(Collective::shuffle, mask, bits);
  const bool there = source < 32 && (all.present >> source & 1u);
  bits = there ? all.value[source] : 0xeeeeeeeeeeeeeeeeu;
  __builtin_memcpy(&mine, &bits, sizeof mine);
  return mine;
}

}  // namespace cuda_emulator

// Of the fiber that runs now. A library that knows them for its own reads them quicker.
[[gnu::visibility("hidden")]] extern constinit thread_local cuda_emulator::Index threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() { cuda_emulator::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  cuda_emulator::exchange(cuda_emulator::Collective::barrier, mask, 0);
}

template <class T>
T __shfl_sync(unsigned mask, T v, int source) {
  return cuda_emulator::from_lane(mask, v, static_cast<unsigned>(source) % 32);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int by) {
  return cuda_emulator::from_lane(mask, v, cuda_emulator::lane() ^ static_cast<unsigned>(by));
}
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
template <class T>
void __stwb(T* p, T v) {
  *p = v;
}
