// SPDX-License-Identifier: Apache-2.0
#include "racing_kernels.h"

#include <cuda_runtime.h>

namespace racing {
namespace {

template <class... P, class... A>
void start(void (*kernel)(P...), unsigned blocks, unsigned threads, A... arguments) {
  cudaLaunchConfig_t config;
  config.gridDim = dim3(blocks), config.blockDim = dim3(threads);
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void of_block(bool barrier, int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (barrier) __syncthreads();
  out[threadIdx.x] = threadIdx.x == 0 ? 0 : values[threadIdx.x - 1];
}

__global__ void of_warp(bool barrier, int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (barrier) __syncwarp();
  out[threadIdx.x] = threadIdx.x % 32 == 0 ? 0 : values[threadIdx.x - 1];
}

__global__ void twice(bool barrier, int* out) {
  __shared__ int value;
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) value = round;
    __syncthreads();
    out[threadIdx.x] = value;
    if (barrier) __syncthreads();
  }
}

__global__ void of_other_block(bool other, int* out) {
  out[blockIdx.x] = 1;
  out[2 + blockIdx.x] = out[other ? 1 - blockIdx.x : blockIdx.x];
}

__global__ void one_place(bool same, int* out) { out[same ? 0 : blockIdx.x] = 1; }

__global__ void some_write(bool all, int* out) {
  __shared__ int values[32];
  if (all || threadIdx.x == 0) values[threadIdx.x] = 1;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = values[31 - threadIdx.x];
}

__global__ void fours(unsigned first, const float* x, float* out) {
  *reinterpret_cast<float4*>(out) = *reinterpret_cast<const float4*>(x + first);
}

}  // namespace

void block_reads_neighbour(bool barrier, int* out) { start(of_block, 1, 64, barrier, out); }
void warp_reads_neighbour(bool barrier, int* out) { start(of_warp, 1, 64, barrier, out); }
void writes_over(bool barrier, int* out) { start(twice, 1, 64, barrier, out); }
void reads_of_other_block(bool other, int* out) { start(of_other_block, 2, 1, other, out); }
void blocks_write(bool same, int* out) { start(one_place, 2, 1, same, out); }
void reads_what_is_written(bool all, int* out) { start(some_write, 2, 32, all, out); }
void reads_four_from(unsigned first, const float* x, float* out) { start(fours, 1, 1, first, x, out); }

}  // namespace racing
