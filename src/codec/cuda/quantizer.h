// SPDX-License-Identifier: Apache-2.0
// quantizer.h -- what the two floats of a column mean, for the kernels of encode.cu and decode.cu. The formulas are
// those of codec/column_kernels.h, operation by operation; the files that include this are compiled without fused
// multiply-add.
#pragma once

#include "base/cuda/launch.h"
#include "codec/cuda/kernels.h"

namespace tutti::codec::cuda {

constexpr unsigned whole_warp = 0xffffffffu;
constexpr float flat_range = 1e-36f;  // columns of a smaller range are constant

struct Pair {
  float lower, upper;
};

__device__ inline Pair around(float m0, float m1) {
  const float mid = (m0 + m1) * 0.5f, d = m1 - m0;
  return {mid - d, mid + d};
}

struct GridOfLevels {
  float lower, step;  // reconstruction: lower + (q + 0.5) * step
  __device__ static GridOfLevels of(Pair p, int levels) {
    const float range = p.upper - p.lower;
    return {p.lower, range < flat_range ? 0.0f : range / static_cast<float>(levels)};
  }
  __device__ float at(unsigned q) const { return lower + (static_cast<float>(q) + 0.5f) * step; }
};

// The level of a value, and what it will be read as.
template <bool OneBit>
struct Quantizer;

template <>
struct Quantizer<true> {
  float threshold, low, high;
  __device__ Quantizer(Pair p, float at, int) : threshold(at) {
    const auto grid = GridOfLevels::of(p, 2);
    low = grid.at(0), high = grid.at(1);
  }
  __device__ unsigned operator()(float v, float& back) const {
    const bool one = v >= threshold;
    back = one ? high : low;
    return one;
  }
};

template <>
struct Quantizer<false> {
  GridOfLevels grid;
  float upper, scale, top;
  __device__ Quantizer(Pair p, float, int bits) : upper(p.upper) {
    const int levels = (1 << bits) - 1;
    const float range = p.upper - p.lower;
    grid = GridOfLevels::of(p, levels);
    top = static_cast<float>(levels);
    scale = range < flat_range ? 0.0f : top / range;
  }
  __device__ unsigned operator()(float v, float& back) const {
    float at = (v - grid.lower) * scale;
    at = at < top ? at : top;
    at = v > grid.lower ? at : 0.0f;  // also where anything is not a number
    const auto q = static_cast<unsigned>(v >= upper ? top : at);
    back = grid.at(q);
    return q;
  }
};

// What a word of the wire is read as.
template <bool OneBit>
struct Reader {
  GridOfLevels grid;
  float low, high;
  unsigned mask;
  __device__ Reader(Pair p, int bits) : grid(GridOfLevels::of(p, OneBit ? 2 : (1 << bits) - 1)) {
    low = grid.at(0), high = grid.at(1), mask = (1u << bits) - 1u;
  }
  __device__ float operator()(unsigned shifted) const {
    if constexpr (OneBit)
      return (shifted & 1u) ? high : low;
    else
      return grid.at(shifted & mask);
  }
};

// How the rows of a column lie in its words: row i * words + w in word w, lowest bits first. A warp takes up to 32
// words at a time; where there are fewer, several lanes share one.
struct Words {
  unsigned count, rows, bits;
  unsigned side, side_bits, parts;  // side: words at a time, two to the side_bits; parts: lanes that share a word
  unsigned of_count, of_rows;       // their inverses, so that short columns divide by a product
  Words(int b, std::size_t r)
      : count(static_cast<unsigned>(words_per_column(b, r))),
        rows(static_cast<unsigned>(r)),
        bits(static_cast<unsigned>(b)),
        side(1),
        side_bits(0) {
    while (side < count && side < 32) side *= 2, ++side_bits;
    parts = 32 / side;
    of_count = (one + count - 1) / count, of_rows = (one + rows - 1) / rows;
  }
  // What a lane does: which word of those at a time, and which part of it.
  __device__ unsigned word_of(unsigned lane) const { return lane & (side - 1); }
  __device__ unsigned part_of(unsigned lane) const { return lane >> side_bits; }
  // row / count, and element / rows in 32 columns and a few beyond, of up to 32 rows: the error stays below 1 / 32.
  __device__ unsigned part_of_word(unsigned row) const { return row * of_count / one; }
  __device__ unsigned column_of(unsigned element) const { return element * of_rows / one; }

 private:
  static constexpr unsigned one = 65536;
};

}  // namespace tutti::codec::cuda
