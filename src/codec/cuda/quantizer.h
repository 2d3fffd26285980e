// SPDX-License-Identifier: Apache-2.0
// quantizer.h -- the meaning of the floats in front of a column, for the kernels of encode.cu and decode.cu. The
// formulas are those of codec/column_kernels.h and adaptive_kernels.h, operation by operation; files that include it
// are compiled without fused multiply-add.
#pragma once

#include "base/cuda/launch.h"
#include "codec/cuda/kernels.h"

namespace tutti::codec::cuda {

constexpr unsigned whole_warp = 0xffffffffu;
constexpr float flat_range = 1e-36f;  // columns of a smaller range are constant
constexpr float nothing = 1e-30f;     // so are sides of adaptive levels

// The levels of a column: one bit, CNTK's between two floats, four means, or even steps on either side of 0.
enum class Kind { one_bit, original, quarters, even };
constexpr Kind kind_of(Format f) {
  return f.bits == 1 ? Kind::one_bit : !f.adaptive ? Kind::original : f.bits == 2 ? Kind::quarters : Kind::even;
}
constexpr bool is_adaptive(Kind k) { return k == Kind::quarters || k == Kind::even; }

// The head of a column, in front of its words.
template <Kind K>
struct Head {
  static constexpr unsigned floats = is_adaptive(K) ? 4 : 2;
  float x[floats];
  __device__ static Head read(const unsigned* column) {
    Head h;
#pragma unroll
    for (unsigned i = 0; i < floats; ++i) h.x[i] = __uint_as_float(column[i]);
    return h;
  }
  __device__ void write(unsigned* column) const {
#pragma unroll
    for (unsigned i = 0; i < floats; ++i) column[i] = __float_as_uint(x[i]);
  }
};

// A head, and numbers that only the encoder needs: the threshold of 1 bit, the means of the sides of 2 bits.
template <Kind K>
struct Column {
  Head<K> head;
  float threshold = 0, below = 0, above = 0;
};

// The head of two floats around two means.
template <Kind K>
__device__ inline Head<K> around(float m0, float m1) {
  const float mid = (m0 + m1) * 0.5f, d = m1 - m0;
  return {{mid - d, mid + d}};
}

struct GridOfLevels {
  float lower, step;  // reconstruction: lower + (q + 0.5) * step
  __device__ GridOfLevels(float low, float upper, int levels) : lower(low) {
    const float range = upper - low;
    step = range < flat_range ? 0.0f : range / static_cast<float>(levels);
  }
  __device__ float at(unsigned q) const { return lower + (static_cast<float>(q) + 0.5f) * step; }
  __device__ void take_from(unsigned lane) {
    lower = __shfl_sync(whole_warp, lower, lane), step = __shfl_sync(whole_warp, step, lane);
  }
};

// Adaptive levels of one side: low + q * step, limited to high.
struct Side {
  float low, high, step;
  __device__ Side(float l, float h, int top) : low(l), high(h) {
    const float range = h - l;
    step = range < nothing ? 0.0f : range / static_cast<float>(top) * (1.0f + 0x1p-20f);
  }
  __device__ float per_unit() const { return high - low < nothing ? 0.0f : 1.0f / step; }
  __device__ float at(unsigned q) const {
    const float v = low + static_cast<float>(q) * step;
    return v < high ? v : high;
  }
  __device__ void take_from(unsigned lane) {
    low = __shfl_sync(whole_warp, low, lane), high = __shfl_sync(whole_warp, high, lane);
    step = __shfl_sync(whole_warp, step, lane);
  }
};

// The decoded value of a level.
template <Kind K>
struct Reader {
  GridOfLevels grid;
  float low, high;
  unsigned mask;
  __device__ Reader(const Head<K>& h, int bits)
      : grid(h.x[0], h.x[1], K == Kind::one_bit ? 2 : (1 << bits) - 1),
        low(grid.at(0)),
        high(grid.at(1)),
        mask((1u << bits) - 1u) {}
  __device__ float operator()(unsigned shifted) const {
    if constexpr (K == Kind::one_bit)
      return (shifted & 1u) ? high : low;
    else
      return grid.at(shifted & mask);
  }
  // What the decoder of another lane needs for more than one bit.
  __device__ void take_from(unsigned lane) { grid.take_from(lane); }
};

template <Kind K>
requires(is_adaptive(K)) struct Reader<K> {
  Side below, above;
  unsigned half;
  __device__ Reader(const Head<K>& h, int bits)
      : below(h.x[0], h.x[1], last_level(bits)), above(h.x[2], h.x[3], last_level(bits)), half(1u << (bits - 1)) {}
  __device__ float operator()(unsigned shifted) const {
    return (shifted & half) ? above.at(shifted & (half - 1)) : below.at(shifted & (half - 1));
  }
  __device__ void take_from(unsigned lane) { below.take_from(lane), above.take_from(lane); }
};

// The level of a value, and its decoded value.
template <Kind K>
struct Quantizer;

template <>
struct Quantizer<Kind::one_bit> {
  Reader<Kind::one_bit> reader;
  float threshold;
  __device__ Quantizer(const Column<Kind::one_bit>& c, int bits) : reader(c.head, bits), threshold(c.threshold) {}
  __device__ unsigned operator()(float v, float& back) const {
    const bool one = v >= threshold;
    back = one ? reader.high : reader.low;
    return one;
  }
};

template <>
struct Quantizer<Kind::original> {
  GridOfLevels grid;
  float upper, scale, top;
  __device__ Quantizer(const Column<Kind::original>& c, int bits)
      : grid(c.head.x[0], c.head.x[1], (1 << bits) - 1), upper(c.head.x[1]), top(static_cast<float>((1 << bits) - 1)) {
    const float range = upper - grid.lower;
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

template <>
struct Quantizer<Kind::quarters> {
  Reader<Kind::quarters> reader;
  float mean_below, mean_above;
  __device__ Quantizer(const Column<Kind::quarters>& c, int bits)
      : reader(c.head, bits), mean_below(c.below), mean_above(c.above) {}
  __device__ unsigned operator()(float v, float& back) const {
    const bool above = v >= 0.0f, outer = v - (above ? mean_above : mean_below) >= 0.0f;
    const unsigned q = (above ? 2u : 0u) | (outer ? 1u : 0u);
    back = reader(q);
    return q;
  }
};

template <>
struct Quantizer<Kind::even> {
  Reader<Kind::even> reader;
  float below_scale, above_scale;
  unsigned top;
  __device__ Quantizer(const Column<Kind::even>& c, int bits)
      : reader(c.head, bits),
        below_scale(reader.below.per_unit()),
        above_scale(reader.above.per_unit()),
        top(static_cast<unsigned>(last_level(bits))) {}
  __device__ unsigned operator()(float v, float& back) const {
    const bool above = v >= 0.0f;
    const Side& side = above ? reader.above : reader.below;
    const float at = (v - side.low) * (above ? above_scale : below_scale) + 0.5f;
    const unsigned q = v >= side.high ? top : static_cast<unsigned>(at > 0.0f ? at : 0.0f);  // 0 for NaN
    back = side.at(q);
    return above ? q | reader.half : q;
  }
};

// The order of the rows of a column in its words: row i * words + w is in word w, lowest bits first. A warp processes
// up to 32 words at a time; if there are fewer, several lanes share one.
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
  // The work of a lane: its word and its part of it.
  __device__ unsigned word_of(unsigned lane) const { return lane & (side - 1); }
  __device__ unsigned part_of(unsigned lane) const { return lane >> side_bits; }
  // row / count, and element / rows in 32 columns and a few more of up to 32 rows: the error stays below 1 / 32.
  __device__ unsigned part_of_word(unsigned row) const { return row * of_count / one; }
  __device__ unsigned column_of(unsigned element) const { return element * of_rows / one; }

 private:
  static constexpr unsigned one = 65536;
};

}  // namespace tutti::codec::cuda
