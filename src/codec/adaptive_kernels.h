// SPDX-License-Identifier: Apache-2.0
// adaptive_kernels.h -- levels fitted to each column, 16 floats at a time: the means of four parts of the column (2
// bits), or even steps between two ends on either side of 0 (4, 8, 16 bits): the smallest and the largest value, or the
// two means, whichever loses less. Part of column_kernels.h, whose rules apply here too.
#pragma once

#include "codec/kernels.h"
#include "codec/lanes.h"

namespace {

// Columns with no larger value decode to 0. Far above the smallest float, so that 1 / step stays finite in 16 bits.
constexpr float kNothing = 1e-30f;

[[gnu::always_inline]] static inline size_t sum_of_counts(Ints counts) {
  std::uint32_t lanes[kWidth];
  store(lanes, counts);
  size_t sum = 0;
  for (const std::uint32_t n : lanes) sum += n;
  return sum;
}

// The means of the negative values and of the others, 0 where there are none; the number of the others.
struct Sides {
  float below, above;
  size_t count_above;
};

[[gnu::always_inline]] static inline Sides side_means(size_t rows, const float* g, const float* residual) {
  Floats below[4] = {}, above[4] = {};
  Ints count[4] = {};
  size_t lanes = 0;
  for_rows(
      rows, [&](size_t r, size_t n, size_t k) __attribute__((always_inline)) {
        const Floats v = value(g, residual, r, n);
        const Ints m = v >= all(0.0f);
        above[k] = pick(m, above[k] + v, above[k]);
        below[k] = pick(m, below[k], below[k] + v);
        count[k] = pick(m, count[k] + all(1), count[k]);
        lanes += kWidth;
      });
  size_t ones = sum_of_counts((count[0] + count[2]) + (count[1] + count[3]));
  ones -= lanes - rows;  // lanes beyond the last row hold zeros, which pass for positive
  return {ones < rows ? fold(below) / static_cast<float>(rows - ones) : 0.0f,
          ones > 0 ? fold(above) / static_cast<float>(ones) : 0.0f, ones};
}

// ---- the levels of a column -----------------------------------------------------------------------------------------

// The negative values have half of the levels, the others the other half; each half is spaced evenly between two
// floats.
struct Range {
  float low, high;
};
struct Ranges {
  Range below, above;
};

// 2 bits: each side is split at its mean; its two levels are the means of the parts.
struct Parts {
  Ints above, outer;  // outer: the upper part of a side
  Floats distance;    // from the side's mean
  [[gnu::always_inline]] Parts(Floats v, Floats mean_below, Floats mean_above) {
    above = v >= all(0.0f);
    distance = v - pick(above, mean_above, mean_below);
    outer = distance >= all(0.0f);
  }
};

// A mean is that of its side plus the mean distance from it, which is exact for a column of equal values. Loss: what 2
// bits lose of a side, the sum of squared distances from the two means.
struct Quarters {
  Ranges means;
  float loss_below, loss_above;
};
template <bool Losses>
[[gnu::always_inline]] static inline Quarters means_of_parts(size_t rows, const float* g, const float* residual,
                                                             Sides inner) {
  Floats sum[4][4] = {}, squares[2][4] = {};
  Ints count[4] = {};
  const Ints none = all(0), one = all(1);
  for_rows(
      rows, [&](size_t r, size_t n, size_t k) __attribute__((always_inline)) {
        const Parts p(value(g, residual, r, n), all(inner.below), all(inner.above));
        const Ints inside = lanes_below(n);
        const Ints part[4] = {pick(p.above | p.outer, none, inside), pick(p.above, none, p.outer & inside),
                              pick(p.outer, none, p.above & inside), p.above & p.outer & inside};
        for (int q = 0; q < 4; ++q) {
          sum[q][k] = pick(part[q], sum[q][k] + p.distance, sum[q][k]);
          count[q] = count[q] + (part[q] & one);
        }
        if (Losses) {
          const Floats square = pick(inside, p.distance * p.distance, all(0.0f));
          squares[0][k] = squares[0][k] + pick(p.above, all(0.0f), square);
          squares[1][k] = squares[1][k] + pick(p.above, square, all(0.0f));
        }
      });
  const float trouble = (inner.below + inner.above) * 0.0f;  // NaN if a sum is not finite
  float at[4], loss[2] = {};
  if (Losses) loss[0] = fold(squares[0]), loss[1] = fold(squares[1]);
  for (int q = 0; q < 4; ++q) {
    const auto members = static_cast<float>(sum_of_counts(count[q]));
    const float distance = members > 0.0f ? fold(sum[q]) / members : 0.0f;
    at[q] = (q < 2 ? inner.below : inner.above) + distance + trouble;
    loss[q / 2] = loss[q / 2] - members * (distance * distance);
  }
  return {{{at[0], at[1]}, {at[2], at[3]}}, loss[0], loss[1]};
}

// The smallest value of a side and its largest. A side without values is 0. All is NaN if any value is not finite.
[[gnu::always_inline]] static inline float smallest_lane(Floats v) {
  float lanes[kWidth];
  store(lanes, v);
  for (int i = 1; i < kWidth; ++i) lanes[0] = lanes[i] < lanes[0] ? lanes[i] : lanes[0];
  return lanes[0];
}
[[gnu::always_inline]] static inline Ranges ends_of_sides(size_t rows, const float* g, const float* residual) {
  const Floats zero = all(0.0f), infinity = all(__builtin_inff());
  // Of the values and of their negatives, so that both ends are minima.
  Floats below = infinity, minus_below = infinity, above = infinity, minus_above = infinity, trouble[4] = {};
  for_rows(
      rows, [&](size_t r, size_t n, size_t k) __attribute__((always_inline)) {
        const Floats v = value(g, residual, r, n), minus = zero - v;
        const Ints inside = lanes_below(n), negative = v < zero, positive = (v >= zero) & inside;
        below = pick((v < below) & negative, v, below);
        minus_below = pick((minus < minus_below) & negative, minus, minus_below);
        above = pick((v < above) & positive, v, above);
        minus_above = pick((minus < minus_above) & positive, minus, minus_above);
        trouble[k] = trouble[k] + v * zero;
      });
  const float bad = fold(trouble);
  const auto range = [bad](Floats low, Floats minus_high) __attribute__((always_inline)) {
    const float l = smallest_lane(low), h = 0.0f - smallest_lane(minus_high);
    return l <= h ? Range{l + bad, h + bad} : Range{bad, bad};
  };
  return {range(below, minus_below), range(above, minus_above)};
}

// ---- from values to levels and back ---------------------------------------------------------------------------------

// Level q of a side decodes to low + q * step, limited to `high`. The step is slightly more than its share of the
// range, so the last level is `high` itself.
struct Scale {
  float step, per_unit;
  [[gnu::always_inline]] static inline Scale of(Range r, int top) {
    const float range = r.high - r.low;
    if (range < kNothing) return {0.0f, 0.0f};
    const float step = range / static_cast<float>(top) * (1.0f + 0x1p-20f);
    return {step, 1.0f / step};
  }
};

template <int B>
struct RangesReader {
  using Head = Ranges;
  static constexpr int kSide = 1 << (B - 1), kTop = tutti::codec::last_level(B);
  Floats below_low, below_high, below_step, above_low, above_high, above_step;
  explicit RangesReader(const Ranges& r)
      : below_low(all(r.below.low)),
        below_high(all(r.below.high)),
        below_step(all(Scale::of(r.below, kTop).step)),
        above_low(all(r.above.low)),
        above_high(all(r.above.high)),
        above_step(all(Scale::of(r.above, kTop).step)) {}
  [[gnu::always_inline]] Floats at(Ints above, Ints q) const {
    const Floats high = pick(above, above_high, below_high);
    const Floats v = pick(above, above_low, below_low) + to_floats(q) * pick(above, above_step, below_step);
    return pick(v < high, v, high);
  }
  [[gnu::always_inline]] Floats operator()(Ints word, int shift) const {
    const Ints q = word >> shift;
    return at(any_bit(q & all(kSide)), q & all(kSide - 1));
  }
};

struct QuarterLevels {  // 2 bits
  RangesReader<2> reader;
  Floats mean_below, mean_above;
  QuarterLevels(const Ranges& r, Sides inner) : reader(r), mean_below(all(inner.below)), mean_above(all(inner.above)) {}
  [[gnu::always_inline]] Ints operator()(Floats v, int shift, Floats& back) const {
    const Parts p(v, mean_below, mean_above);
    const Ints q = p.outer & all(1);
    back = reader.at(p.above, q);
    return (q | (p.above & all(2))) << shift;
  }
};

template <int B>
struct EvenLevels {
  using Reader = RangesReader<B>;
  Reader reader;
  Floats below_scale, above_scale;
  explicit EvenLevels(const Ranges& r)
      : reader(r),
        below_scale(all(Scale::of(r.below, Reader::kTop).per_unit)),
        above_scale(all(Scale::of(r.above, Reader::kTop).per_unit)) {}
  [[gnu::always_inline]] Ints operator()(Floats v, int shift, Floats& back) const {
    const Ints above = v >= all(0.0f);
    const Floats distance = v - pick(above, reader.above_low, reader.below_low);
    const Floats at = distance * pick(above, above_scale, below_scale) + all(0.5f);
    const Ints q = pick(v >= pick(above, reader.above_high, reader.below_high), all(Reader::kTop),
                        to_ints(pick(at > all(0.0f), at, all(0.0f))));  // 0 where anything is not a number
    back = reader.at(above, q);
    return (q | (above & all(Reader::kSide))) << shift;
  }
};

// ---- the ends of 4 bits and more -----------------------------------------------------------------------------------

// Whether even steps of 4 bits between the ends surely lose no more of `rows` values than the two means: no value is
// more than half a step off. The answer is the same for 8 and 16 bits, whose levels contain these.
[[gnu::always_inline]] static inline bool ends_suffice(Range ends, float loss_of_means, size_t rows) {
  const float per_unit = Scale::of(ends, tutti::codec::last_level(4)).per_unit;  // 0 if the values are equal
  return per_unit == 0.0f || static_cast<float>(rows) * 0.25f <= loss_of_means * per_unit * per_unit;
}

// By how much steps between the means lose less than steps between the ends: sums of squares, in steps of the latter.
struct Gain {
  float below, above;
};
template <int B>
[[gnu::always_inline]] static inline Gain gain_of_means(size_t rows, const float* g, const float* residual,
                                                        const Ranges& ends, const Ranges& means) {
  const EvenLevels<B> wide(ends), narrow(means);
  const Floats zero = all(0.0f);
  Floats below[4] = {}, above[4] = {};
  for_rows(
      rows, [&](size_t r, size_t n, size_t k) __attribute__((always_inline)) {
        const Floats v = value(g, residual, r, n);
        const Ints inside = lanes_below(n), positive = v >= zero;
        Floats of_ends, of_means;
        wide(v, 0, of_ends), narrow(v, 0, of_means);
        const Floats unit = pick(positive, wide.above_scale, wide.below_scale);
        const Floats e = (v - of_ends) * unit, m = (v - of_means) * unit, gain = pick(inside, e * e - m * m, zero);
        above[k] = above[k] + pick(positive, gain, zero);
        below[k] = below[k] + pick(positive, zero, gain);
      });
  return {fold(below), fold(above)};
}

// No width loses more of a column than a narrower one: with the means of 2 bits as ends, every level of 2 bits is one
// of these too, and those of a width are levels of all wider ones.
template <int B>
[[gnu::always_inline]] static inline Ranges better_ends(size_t rows, const float* g, const float* residual) {
  Ranges ends = ends_of_sides(rows, g, residual);
  const Sides inner = side_means(rows, g, residual);
  const Quarters quarters = means_of_parts<true>(rows, g, residual, inner);
  if (ends_suffice(ends.below, quarters.loss_below, rows - inner.count_above) &&
      ends_suffice(ends.above, quarters.loss_above, inner.count_above))
    return ends;
  const Gain gain = gain_of_means<B>(rows, g, residual, ends, quarters.means);
  if (gain.below > 0.0f) ends.below = quarters.means.below;
  if (gain.above > 0.0f) ends.above = quarters.means.above;
  return ends;
}

// ---- columns that are sent as they are ------------------------------------------------------------------------------

// Sets the whole column to NaN if one of its values is not finite.
static void encode_whole(size_t rows, size_t columns, const float* g, float* residual, std::byte* out) {
  for (size_t c = 0; c < columns; ++c, g += rows, residual += rows, out += 4 * rows) {
    const Floats v = load_first(g, rows) + load_first(residual, rows);
    const Floats back = v + all(fold(v * all(0.0f)));
    store_first(residual, rows, v - back);
    memcpy(out, &back, 4 * rows);
  }
}

}  // namespace
