// SPDX-License-Identifier: Apache-2.0
// kernels.h -- the codec loops on a GPU: the same bytes, sums and residuals as codec/kernels.h, bit for bit. Pointers
// are any memory that the GPU can access; data are complete when the stream is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "codec/kernels.h"

namespace tutti::codec::cuda {

struct EncodeColumns {
  Format format;
  std::size_t rows = 0, columns = 0;
  const float* values = nullptr;
  float* residual = nullptr;
  std::byte* out = nullptr;
};
void encode(const EncodeColumns&, cudaStream_t);

struct DecodeColumns {
  Format format;
  bool add = false;
  std::size_t rows = 0, columns = 0;
  const std::byte* in = nullptr;
  float* values = nullptr;
};
void decode(const DecodeColumns&, cudaStream_t);

// Value by value; `residual` may be null.
void encode_halves(Half, std::size_t count, const float* values, float* residual, std::byte* out, cudaStream_t);
void decode_halves(Half, bool add, std::size_t count, const std::byte* in, float* values, cudaStream_t);
void encode_floats(std::size_t count, const float* values, float* residual, std::byte* out, cudaStream_t);
void decode_floats(bool add, std::size_t count, const std::byte* in, float* values, cudaStream_t);

}  // namespace tutti::codec::cuda
