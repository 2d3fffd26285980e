// SPDX-License-Identifier: Apache-2.0
// reference_quantizer.h -- gradient quantisation written down as plainly as possible, one column at a time; what codecs
// and the stripe exchange are compared with. The only freedom, the order of the sums, is fixed: 64 lanes, then halves.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tutti::reference {

inline float lane_sum(const std::vector<float>& values) {
  std::array<float, 64> lanes{};
  for (std::size_t i = 0; i < values.size(); ++i) lanes[i % 64] += values[i];
  for (std::size_t half = 32; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

struct Column {
  float lower = 0, upper = 0;
  std::vector<std::uint32_t> levels;
  std::vector<float> values;  // reconstructed
};

// Quantises values + residual and leaves the rest in residual. bits = 1, 2, 4, 8, 16.
inline Column quantize(int bits, bool zero_threshold, std::span<const float> values, std::span<float> residual) {
  const std::size_t rows = values.size();
  const auto n = static_cast<float>(rows);
  std::vector<float> v(rows);
  for (std::size_t i = 0; i < rows; ++i) v[i] = values[i] + residual[i];

  Column c;
  float mean = 0;
  const int steps = bits == 1 ? 2 : (1 << bits) - 1;
  if (bits == 1) {
    float m0 = 0, m1 = 0;
    if (zero_threshold) {
      std::vector<float> negative(rows), positive(rows);
      int positives = 0;
      for (std::size_t i = 0; i < rows; ++i) (v[i] >= 0 ? positive : negative)[i] = v[i], positives += v[i] >= 0;
      const int negatives = static_cast<int>(rows) - positives;
      if (negatives > 0) m0 = lane_sum(negative) / static_cast<float>(negatives);
      if (positives > 0) m1 = lane_sum(positive) / static_cast<float>(positives);
    } else {
      mean = lane_sum(v) / n;
      std::vector<float> distance(rows);
      for (std::size_t i = 0; i < rows; ++i) distance[i] = std::fabs(v[i] - mean);
      const float deviation = lane_sum(distance) / n;
      m0 = mean - deviation, m1 = mean + deviation;
    }
    const float mid = (m0 + m1) * 0.5f;
    c.lower = mid - (m1 - m0), c.upper = mid + (m1 - m0);
  } else {
    std::vector<float> square(rows);
    for (std::size_t i = 0; i < rows; ++i) square[i] = v[i] * v[i];
    c.upper = 4 * std::sqrt(lane_sum(square) / n), c.lower = -c.upper;
  }

  const float range = c.upper - c.lower;
  const bool flat = range < 1e-36f;
  const float step = flat ? 0 : range / static_cast<float>(steps);
  for (std::size_t i = 0; i < rows; ++i) {
    std::uint32_t q = 0;
    if (bits == 1) {
      q = v[i] >= mean;
    } else if (v[i] >= c.upper) {
      q = static_cast<std::uint32_t>(steps);
    } else if (v[i] > c.lower) {
      const float scale = flat ? 0 : static_cast<float>(steps) / range;
      q = static_cast<std::uint32_t>(std::fmin((v[i] - c.lower) * scale, static_cast<float>(steps)));
    }
    c.levels.push_back(q);
    c.values.push_back(c.lower + (static_cast<float>(q) + 0.5f) * step);
    residual[i] = v[i] - c.values[i];
  }
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
