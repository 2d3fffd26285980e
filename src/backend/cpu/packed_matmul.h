// SPDX-License-Identifier: Apache-2.0
// packed_matmul.h -- products of float32 matrices on processors with AVX2, where oneDNN is slow when the left operand
// has few rows (figures in docs/notes/avx2.md). The right operand is packed a few panels at a time, just before they
// are used; one of up to 64 MB that is used again in the same version (a recurrent weight, at every time step; the
// gradient of a layer's outputs, for each chunk of its weight's gradient) is kept packed.
#pragma once

#include <map>
#include <utility>

#include "backend/cpu/packed_kernels.h"
#include "tutti/backend.h"
#include "tutti/parameters.h"

namespace tutti::cpu {

class PackedMatmul {
 public:
  explicit PackedMatmul(const PackedKernels& kernels) : kernels_(kernels) {}
  // Whether the product is faster than by oneDNN on a processor without AVX-512. Depends only on the shape.
  static bool pays(const Gemm&);
  void run(const Gemm&, const float* a, const float* b, float* c);

 private:
  // A panel of this depth stays in the first-level cache; the rows and the group of panels, in the second.
  static constexpr std::size_t most_depth = 256, most_rows = 48 * PackedKernels::rows, group = 8 * PackedKernels::columns;

  static constexpr std::size_t most_kept = std::size_t{1} << 24;  // floats

  struct Kept {
    std::uint64_t version = 0;
    std::size_t k = 0, n = 0, stride = 0;
    bool packed = false;
    FloatBuffer panels;  // [block of the summed axis][panel][depth][16]
    bool is_of(const Gemm& g) const { return version == g.b_version && k == g.k && n == g.n && stride == g.ldb; }
  };
  // The whole right operand, packed; null if it is used for the first time.
  const float* kept(const Gemm&, const float* b);
  // Columns [column, column + n) at [first, first + depth) of the summed axis.
  void pack_right(const Gemm&, const float* b, std::size_t first, std::size_t depth, std::size_t column, std::size_t n,
                  float* to) const;
  static float* reserve(FloatBuffer&, std::size_t floats);

  const PackedKernels& kernels_;
  FloatBuffer left_, right_;
  std::map<std::pair<const float*, bool>, Kept> kept_;  // by address, and whether transposed
};

}  // namespace tutti::cpu
