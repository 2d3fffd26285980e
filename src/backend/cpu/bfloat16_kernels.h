// SPDX-License-Identifier: Apache-2.0
// bfloat16_kernels.h -- the inner loops of bfloat16 products, for processors with AVX512-BF16. Data are pairs: two
// neighbours along the summed axis, rounded to bfloat16, in one 32-bit word; an odd end is padded with zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::cpu {

struct Bfloat16Kernels {
  // Columns of a packed right operand, and rows of a packed transposed left one, per panel.
  static constexpr std::size_t panel = 64, left_panel = 48;

  // [rows][count] -> [rows][pairs]: the summed axis is along the row.
  void (*convert)(const float* x, std::size_t stride, std::size_t rows, std::size_t count, std::uint32_t* out);
  // [count][columns] -> panels of `width` columns, [panel][pairs][width]: the summed axis is across rows. Converts the
  // pairs [first, last); width is a multiple of 16.
  void (*pack)(const float* x, std::size_t stride, std::size_t count, std::size_t columns, std::size_t width,
               std::size_t first, std::size_t last, bool stream, std::uint32_t* out);
  // The same panels of 64 from [columns][count]; converts the panels [first, last).
  void (*pack_transposed)(const float* x, std::size_t stride, std::size_t count, std::size_t columns, std::size_t first,
                          std::size_t last, bool stream, std::uint32_t* out);
  // Rows of C times one panel of n <= 64 columns: pair p of row r is a[r * row_step + p * pair_step]; b is [pairs][64].
  void (*multiply)(const std::uint32_t* a, std::size_t row_step, std::size_t pair_step, const std::uint32_t* b,
                   std::size_t rows, std::size_t n, std::size_t pairs, float* c, std::size_t stride, bool add);
};

// Null if the processor lacks the instructions.
const Bfloat16Kernels* bfloat16_kernels();

}  // namespace tutti::cpu
