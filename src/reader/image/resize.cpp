// SPDX-License-Identifier: Apache-2.0
// Two passes, rows first; only the rows that a target row needs are kept. Linear interpolation of bytes is done in
// whole numbers: sums of 11 + 11 fractional bits fit into 32, which the outer lobes of cubic and lanczos would not.
#include "reader/image/resize.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace tutti::reader {
namespace {

constexpr int fraction_bits = 11;

// Weights of the source pixels around a place that lies `x` behind the pixel at its left, 0 <= x < 1.
void weights_of(Interpolation interpolation, float x, float* w) {
  if (interpolation == Interpolation::linear) {
    w[0] = 1 - x, w[1] = x;
  } else if (interpolation == Interpolation::cubic) {
    constexpr float a = -0.75f;
    const auto near = [&](float t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
    const auto far = [&](float t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
    w[0] = far(1 + x), w[1] = near(x), w[2] = near(1 - x);
    w[3] = 1.0f - w[0] - w[1] - w[2];
  } else {
    double sum = 0, raw[8];
    for (int i = 0; i < 8; ++i) {
      const double t = (static_cast<double>(x) - (i - 3)) * 3.14159265358979323846;
      raw[i] = std::fabs(t) < 1e-6 ? 1 : 4 * std::sin(t) * std::sin(t / 4) / (t * t);
      sum += raw[i];
    }
    for (int i = 0; i < 8; ++i) w[i] = static_cast<float>(raw[i] / sum);
  }
}

template <class T, class A>
T rounded(A sum) {
  if constexpr (std::is_same_v<T, float>) {
    return sum;
  } else if constexpr (std::is_same_v<A, float>) {
    return static_cast<T>(std::clamp(std::lrint(sum), 0L, 255L));
  } else {
    return static_cast<T>((sum + (1 << (2 * fraction_bits - 1))) >> (2 * fraction_bits));
  }
}

// Two rows of linear interpolation. OpenCV drops bits on the way, so that 16 bits do for a number; so do we.
template <class T, class A>
T between(A a, A b, A wa, A wb) {
  if constexpr (std::is_same_v<A, float>) {
    return rounded<T, A>(a * wa + b * wb);
  } else {
    return static_cast<T>((((a >> 4) * wa >> 16) + ((b >> 4) * wb >> 16) + 2) >> 2);
  }
}

}  // namespace

void Resizer::Axis::plan(std::int64_t n_from, std::int64_t n_to, Interpolation how) {
  if (from == n_from && to == n_to && interpolation == how && taps > 0) return;
  from = n_from, to = n_to, interpolation = how;
  taps = how == Interpolation::nearest ? 1 : how == Interpolation::linear ? 2 : how == Interpolation::cubic ? 4 : 8;
  const auto n = static_cast<std::size_t>(to);
  index.resize(n * taps);
  weight.resize(n * taps);
  fixed.resize(n * taps);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const std::int64_t left = static_cast<std::int64_t>(taps) / 2 - 1;
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t first = 0;
    float* const w = weight.data() + i * taps;
    if (how == Interpolation::nearest) {
      first = static_cast<std::int64_t>(std::floor(static_cast<double>(i) * scale));
      w[0] = 1;
    } else {
      const auto at = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
      first = static_cast<std::int64_t>(std::floor(at));
      weights_of(how, at - static_cast<float>(first), w);
      first -= left;
    }
    for (std::size_t k = 0; k < taps; ++k) {
      index[i * taps + k] =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(first + static_cast<std::int64_t>(k), 0, from - 1));
      fixed[i * taps + k] = static_cast<std::int32_t>(std::lrint(w[k] * (1 << fraction_bits)));
    }
  }
}

// One source row, its pixels taken together for each target column.
template <class T, class A>
void Resizer::widen(const T* row, A* to, std::size_t channels) const {
  const auto n = static_cast<std::size_t>(x_.to);
  const std::int32_t* index = x_.index.data();
  const A* w = nullptr;
  if constexpr (std::is_same_v<A, float>) {
    w = x_.weight.data();
  } else {
    w = x_.fixed.data();
  }
  if (x_.taps == 2 && channels == 3) {
    for (std::size_t i = 0; i < n; ++i, index += 2, w += 2, to += 3) {
      const T* const a = row + 3 * index[0];
      const T* const b = row + 3 * index[1];
      for (int c = 0; c < 3; ++c) to[c] = static_cast<A>(a[c]) * w[0] + static_cast<A>(b[c]) * w[1];
    }
    return;
  }
  for (std::size_t i = 0; i < n; ++i, index += x_.taps, w += x_.taps)
    for (std::size_t c = 0; c < channels; ++c) {
      A sum = 0;
      for (std::size_t k = 0; k < x_.taps; ++k)
        sum += static_cast<A>(row[static_cast<std::size_t>(index[k]) * channels + c]) * w[k];
      *to++ = sum;
    }
}

template <class T, class A>
void Resizer::run(const Image& from, T* to) {
  const auto channels = static_cast<std::size_t>(from.size.channels);
  const std::size_t n = static_cast<std::size_t>(x_.to) * channels, taps = y_.taps;
  A* rows = nullptr;
  const A* weights = nullptr;
  if constexpr (std::is_same_v<A, float>) {
    float_rows_.clear();
    rows = float_rows_.extend(n * taps);
    weights = y_.weight.data();
  } else {
    fixed_rows_.clear();
    rows = fixed_rows_.extend(n * taps);
    weights = y_.fixed.data();
  }
  held_.assign(taps, -1);
  for (std::size_t y = 0; y < static_cast<std::size_t>(y_.to); ++y, to += n) {
    const A* source[8];
    for (std::size_t k = 0; k < taps; ++k) {
      const std::int64_t row = y_.index[y * taps + k];
      const std::size_t slot = static_cast<std::size_t>(row) % taps;
      if (held_[slot] != row) widen<T, A>(from.row<T>(static_cast<std::size_t>(row)), rows + slot * n, channels);
      held_[slot] = row;
      source[k] = rows + slot * n;
    }
    const A* const w = weights + y * taps;
    if (taps == 2) {
      for (std::size_t i = 0; i < n; ++i) to[i] = between<T, A>(source[0][i], source[1][i], w[0], w[1]);
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        A sum = 0;
        for (std::size_t k = 0; k < taps; ++k) sum += source[k][i] * w[k];
        to[i] = rounded<T, A>(sum);
      }
    }
  }
}

Image Resizer::operator()(const Image& from, std::int64_t width, std::int64_t height, Interpolation interpolation,
                          Scratch& scratch) {
  if (from.size.width == width && from.size.height == height) return from;
  x_.plan(from.size.width, width, interpolation);
  y_.plan(from.size.height, height, interpolation);
  const ImageSize size{width, height, from.size.channels};
  const auto n = static_cast<std::size_t>(size.numbers());
  if (from.floats) {
    float* const to = scratch.next<float>(n);
    run<float, float>(from, to);
    return packed_image(size, to);
  }
  auto* const to = scratch.next<std::uint8_t>(n);
  if (interpolation == Interpolation::cubic || interpolation == Interpolation::lanczos) {
    run<std::uint8_t, float>(from, to);
  } else {
    run<std::uint8_t, std::int32_t>(from, to);
  }
  return packed_image(size, to);
}

}  // namespace tutti::reader
