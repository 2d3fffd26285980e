// SPDX-License-Identifier: Apache-2.0
// bfloat16_matmul.h -- products of float32 matrices with operands rounded to bfloat16 and sums in float32. A right
// operand with a version (a weight) is converted once and kept.
#pragma once

#include <map>
#include <utility>

#include "backend/cpu/bfloat16_kernels.h"
#include "tutti/backend.h"
#include "tutti/parameters.h"

namespace tutti::cpu {

class Bfloat16Matmul {
 public:
  explicit Bfloat16Matmul(const Bfloat16Kernels& kernels) : kernels_(kernels) {}
  // Whether the product is faster than in float32, which is also more exact. Converting an operand costs about as much
  // as using its values 75 times in float32. And a few rows times a matrix larger than the cache take as long as
  // reading the matrix once. The rule depends only on the shape, so that runs agree.
  static bool pays(const Gemm& g) {
    constexpr std::size_t uses = 96;
    if (g.m <= 16 && g.k * g.n >= (std::size_t{1} << 22)) return false;
    return g.n >= uses && (g.b_version != 0 || g.m >= uses);
  }
  void run(const Gemm&, const float* a, const float* b, float* c);

 private:
  struct Kept {
    std::uint64_t version = 0;
    std::size_t k = 0, n = 0, stride = 0;
    FloatBuffer words;  // 32 bits each
  };
  std::uint32_t* reserve(FloatBuffer&, std::size_t words);
  const std::uint32_t* left(const Gemm&, const float* a);
  const std::uint32_t* right(const Gemm&, const float* b);
  void convert_right(const Gemm&, const float* b, std::uint32_t* to) const;
  void multiply(const Gemm&, const std::uint32_t* a, const std::uint32_t* b, float* c, std::size_t first_row,
                std::size_t last_row, std::size_t first_panel, std::size_t last_panel) const;

  const Bfloat16Kernels& kernels_;
  FloatBuffer left_, right_;
  std::map<std::pair<const float*, bool>, Kept> kept_;  // by address, and whether transposed
};

}  // namespace tutti::cpu
