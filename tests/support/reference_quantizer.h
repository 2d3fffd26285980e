// SPDX-License-Identifier: Apache-2.0
// reference_quantizer.h -- gradient quantisation written down as plainly as possible, one column at a time; what codecs
// and the shard exchange are compared with. The only freedom, the order of the sums, is fixed: 64 lanes, then halves.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tutti/codec.h"

namespace tutti::reference {

inline float lane_sum(const std::vector<float>& values) {
  std::array<float, 64> lanes{};
  for (std::size_t i = 0; i < values.size(); ++i) lanes[i % 64] += values[i];
  for (std::size_t half = 32; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

inline float mean_of(const std::vector<float>& sum_of, std::size_t n) {
  return n > 0 ? lane_sum(sum_of) / static_cast<float>(n) : 0.0f;
}

struct Column {
  std::vector<float> head;  // what travels before the levels
  std::vector<std::uint32_t> levels;
  std::vector<float> values;  // reconstructed
  bool whole = false;         // the values travel themselves
};

// The mean of the values for which `of(value)` holds.
template <class Of>
float mean_where(const std::vector<float>& v, const Of& of) {
  std::vector<float> members(v.size());
  std::size_t n = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    if (of(v[i])) members[i] = v[i], ++n;
  return mean_of(members, n);
}

// CNTK's: even steps between two floats.
inline Column original(const CodecOptions& o, const std::vector<float>& v) {
  const auto n = static_cast<float>(v.size());
  float lower, upper;
  const float threshold = o.bits == 1 && !o.zero_threshold ? lane_sum(v) / n : 0;
  const int steps = o.bits == 1 ? 2 : (1 << o.bits) - 1;
  if (o.bits > 1) {
    std::vector<float> square(v);
    for (float& x : square) x *= x;
    upper = 4 * std::sqrt(lane_sum(square) / n), lower = -upper;
  } else {
    float m0, m1;
    if (o.zero_threshold) {
      m0 = mean_where(v, [](float x) { return !(x >= 0); }), m1 = mean_where(v, [](float x) { return x >= 0; });
    } else {
      std::vector<float> distance(v);
      for (float& x : distance) x = std::fabs(x - threshold);
      const float deviation = lane_sum(distance) / n;
      m0 = threshold - deviation, m1 = threshold + deviation;
    }
    const float mid = (m0 + m1) * 0.5f;
    lower = mid - (m1 - m0), upper = mid + (m1 - m0);
  }
  const float range = upper - lower;
  const bool flat = range < 1e-36f;
  const float step = flat ? 0 : range / static_cast<float>(steps);
  Column c{{lower, upper}, {}, {}};
  for (const float x : v) {
    std::uint32_t q = 0;
    if (o.bits == 1) {
      q = x >= threshold;
    } else if (x >= upper) {
      q = static_cast<std::uint32_t>(steps);
    } else if (x > lower) {
      const float scale = flat ? 0 : static_cast<float>(steps) / range;
      q = static_cast<std::uint32_t>(std::fmin((x - lower) * scale, static_cast<float>(steps)));
    }
    c.levels.push_back(q);
    c.values.push_back(lower + (static_cast<float>(q) + 0.5f) * step);
  }
  return c;
}

// 2 bits: the means of the four parts of a column.
inline Column four_means(const std::vector<float>& v) {
  const float below = mean_where(v, [](float x) { return !(x >= 0); }),
              above = mean_where(v, [](float x) { return x >= 0; });
  std::vector<float> distance(v);
  std::vector<std::uint32_t> part;
  for (float& x : distance) {
    const bool up = x >= 0;
    x -= up ? above : below;
    part.push_back((up ? 2 : 0) + (x >= 0 ? 1 : 0));
  }
  Column c;
  for (std::uint32_t q = 0; q < 4; ++q) {
    std::vector<float> members(v.size());
    std::size_t n = 0;
    for (std::size_t i = 0; i < v.size(); ++i)
      if (part[i] == q) members[i] = distance[i], ++n;
    c.head.push_back((q < 2 ? below : above) + mean_of(members, n) + (below + above) * 0.0f);
  }
  for (const std::uint32_t q : part) c.levels.push_back(q), c.values.push_back(c.head[q]);
  return c;
}

// Even steps between two ends on either side: low and high of the negative values, then of the others.
inline float per_unit(int bits, float low, float high) {
  const auto top = static_cast<float>(bits == 4 ? 7 : bits == 8 ? 126 : 32760);
  return high - low < 1e-30f ? 0 : 1 / ((high - low) / top * (1 + 0x1p-20f));
}
inline Column even_steps(int bits, const std::vector<float>& v, const std::vector<float>& ends) {
  const int side = 1 << (bits - 1), top = bits == 4 ? 7 : bits == 8 ? 126 : 32760;
  float step[2], scale[2];
  for (int s = 0; s < 2; ++s) {
    const float range = ends[2 * s + 1] - ends[2 * s];
    step[s] = range < 1e-30f ? 0 : range / static_cast<float>(top) * (1 + 0x1p-20f);
    scale[s] = per_unit(bits, ends[2 * s], ends[2 * s + 1]);
  }
  Column c{ends, {}, {}};
  for (const float x : v) {
    const int s = x >= 0;
    const float low = ends[2 * s], high = ends[2 * s + 1], at = (x - low) * scale[s] + 0.5f;
    const int q = x >= high ? top : at > 0 ? static_cast<int>(at) : 0;
    c.levels.push_back(static_cast<std::uint32_t>(q + s * side));
    c.values.push_back(std::isnan(low) ? low : std::fmin(low + static_cast<float>(q) * step[s], high));
  }
  return c;
}

// Whether steps of 4 bits between the ends surely lose no more than the means of 2 bits, on both sides.
inline bool ends_suffice(const std::vector<float>& v, const std::vector<float>& ends) {
  bool all = true;
  for (int s = 0; s < 2; ++s) {
    const auto here = [s](float x) { return (x >= 0) == (s == 1); };
    const float mean = mean_where(v, here), unit = per_unit(4, ends[2 * s], ends[2 * s + 1]);
    std::vector<float> square(v.size()), part[2]{square, square};
    float count[2] = {};
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (!here(v[i])) continue;
      const float d = v[i] - mean;
      square[i] = d * d, part[d >= 0][i] = d, ++count[d >= 0];
    }
    float loss = lane_sum(square);
    for (int p = 0; p < 2; ++p) {
      const float distance = count[p] > 0 ? lane_sum(part[p]) / count[p] : 0;
      loss -= count[p] * (distance * distance);
    }
    all = all && (unit == 0 || (count[0] + count[1]) * 0.25f <= loss * unit * unit);
  }
  return all;
}

// 4, 8, 16 bits: between the smallest and the largest value, or between the means of 2 bits, whichever loses less.
inline Column better_steps(int bits, const std::vector<float>& v) {
  float trouble = 0;
  std::vector<float> ends{HUGE_VALF, -HUGE_VALF, HUGE_VALF, -HUGE_VALF};
  for (const float x : v) {
    float *low = &ends[x >= 0 ? 2 : 0], *high = low + 1;
    trouble += x * 0.0f, *low = std::fmin(*low, x), *high = std::fmax(*high, x);
  }
  for (int s = 0; s < 4; s += 2)
    if (ends[s] > ends[s + 1]) ends[s] = ends[s + 1] = 0;
  for (float& end : ends) end += trouble;
  const std::vector<float> means = four_means(v).head;
  const Column wide = even_steps(bits, v, ends), narrow = even_steps(bits, v, means);
  if (ends_suffice(v, ends)) return wide;
  float unit[2];
  for (int s = 0; s < 2; ++s) unit[s] = per_unit(bits, ends[2 * s], ends[2 * s + 1]);
  std::vector<float> gain[2]{std::vector<float>(v.size()), std::vector<float>(v.size())};
  for (std::size_t i = 0; i < v.size(); ++i) {
    const int s = v[i] >= 0;
    const float e = (v[i] - wide.values[i]) * unit[s], m = (v[i] - narrow.values[i]) * unit[s];
    gain[s][i] = e * e - m * m;
  }
  for (int s = 0; s < 2; ++s)
    if (lane_sum(gain[s]) > 0) std::copy_n(means.begin() + 2 * s, 2, ends.begin() + 2 * s);
  return even_steps(bits, v, ends);
}

// Quantises values + residual and leaves the rest in residual. bits = 1, 2, 4, 8, 16.
inline Column quantize(const CodecOptions& o, std::span<const float> values, std::span<float> residual) {
  std::vector<float> v(values.size());
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = values[i] + residual[i];
  Column c;
  if (o.bits == 1 || o.quantizer == Quantizer::original)
    c = original(o, v);
  else
    c = o.bits == 2 ? four_means(v) : better_steps(o.bits, v);
  const std::size_t per_word = 32 / static_cast<std::size_t>(o.bits);
  c.whole = c.head.size() + (v.size() + per_word - 1) / per_word >= v.size();
  if (c.whole && c.head.size() > 2) {
    float trouble = 0;
    for (const float x : v) trouble += x * 0.0f;
    for (std::size_t i = 0; i < v.size(); ++i) c.values[i] = v[i] + trouble;
  }
  for (std::size_t i = 0; i < v.size(); ++i) residual[i] = v[i] - c.values[i];
  return c;
}

// Equal bits, except that one NaN is as good as another.
inline bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0; }
inline bool same(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}

}  // namespace tutti::reference
