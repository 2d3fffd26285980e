// SPDX-License-Identifier: Apache-2.0
// winograd_kernels.h -- the inner loops of convolutions by Winograd's algorithm F(4x4, 3x3) for processors with AVX2
// and FMA but without AVX-512. A tile of 4 x 4 results needs 6 x 6 pixels; after the transform, each of these 36 positions is
// one matrix product. Images are blocked (8 channels), columns of products come in panels of 16.
#pragma once

#include <cstddef>

namespace tutti::cpu {

struct WinogradKernels {
  static constexpr std::size_t tile = 4, positions = 36, block = 8, columns = 16;
  static constexpr std::size_t rows = 6;  // tiles of a product at a time

  // Part of one image. Pixels outside of it are zeros, and are not written.
  struct Place {
    std::size_t width, height;
    long x, y;  // of the first pixel
    std::size_t blocks;
    std::size_t ahead;  // floats to the same place in a later tile, which is prefetched
  };
  // Where the transformed channels go: floats between positions, and between (pairs of) blocks.
  struct Steps {
    std::size_t position, block, pair;
  };
  // 6 x 6 pixels of all blocks, for the product; 4 x 4 pixels of a gradient.
  void (*spread_pixels)(const Place&, const float* image, const Steps&, float* out);
  void (*spread_gradient)(const Place&, const float* image, const Steps&, float* out);
  // Weights of up to 16 columns: [depth][9] with given floats between columns and between rows ->
  // [position][depth][16]. Columns and rows that are missing are zeros. `turned`: the kernel by half a turn, for the
  // gradient of pixels.
  struct Weights {
    std::size_t across, along, columns, depth;
    bool turned;
  };
  void (*spread_weights)(const Weights&, const float* w, std::size_t padded_depth, std::size_t step, float* out);
  // C[tiles][16] = V[blocks][V's tiles][8] times U[blocks * 8][16].
  void (*multiply)(const float* v, std::size_t step, std::size_t tiles, std::size_t blocks, const float* u, float* c);
  // C[8][16] = or += the sum over tiles of V[tiles][8] times W[tiles][16].
  void (*multiply_gradient)(const float* v, const float* w, std::size_t tiles, float* c, bool add);
  // 4 x 4 results of the blocks of a panel, from [position][16]: y = or += [max 0] result + bias[16].
  struct Result {
    std::size_t step;  // floats between positions
    const float* bias;
    bool relu, add;
  };
  void (*gather_pixels)(const Place&, const Result&, const float* m, float* image);
  // The gradient of weights, from [position][depth][16], set or added.
  void (*gather_weights)(const Weights&, const float* m, std::size_t step, float* dw, bool add);
};

// Null if the processor lacks the instructions.
const WinogradKernels* winograd_kernels();

}  // namespace tutti::cpu
