// SPDX-License-Identifier: Apache-2.0
// packed_kernels.h -- the inner loops of float32 products for processors with AVX2 and FMA but without AVX-512. Every
// element of a product is summed in the order of the summed axis, so tiles and threads do not change the result.
#pragma once

#include <cstddef>

namespace tutti::cpu {

struct PackedKernels {
  // A tile of the result: with two vectors per row, its sums, a pair of the right operand and one value of the left one
  // fill the 16 registers.
  static constexpr std::size_t rows = 6, columns = 16;

  // [m][depth], or [depth][m] if transposed -> panels of 6 rows, [panel][depth][6]. Rows beyond m are not written.
  void (*pack_left)(const float* a, std::size_t stride, bool transposed, std::size_t m, std::size_t depth, float* out);
  // [depth][n], or [n][depth] if transposed -> panels of 16 columns, [panel][depth][16], padded with zeros.
  void (*pack_right)(const float* b, std::size_t stride, bool transposed, std::size_t n, std::size_t depth, float* out);
  // C[m][columns] = or += the packed left rows times one panel of the right operand.
  using Multiply = void(const float* left, const float* right, std::size_t m, std::size_t columns, std::size_t depth,
                        float* c, std::size_t stride, bool add);
  Multiply* multiply;
  // The same, and prefetches the panel that follows in memory into the second-level cache.
  Multiply* multiply_and_fetch;
};

// Null if the processor lacks the instructions.
const PackedKernels* packed_kernels();

}  // namespace tutti::cpu
