// SPDX-License-Identifier: Apache-2.0
// math.h -- elementary functions for one number: the formulas of cpu/vector_math.inl in the same order and without
// fused multiply-add (-fmad=false), so elementwise operations give the bits of the CPU.
#pragma once

#include <cuda_runtime.h>

#include "tutti/backend.h"

namespace tutti::cuda {

__device__ inline float infinity() { return __int_as_float(0x7f800000); }

__device__ inline float exponential(float x) {
  constexpr float low = -87.3365f, high = 88.3762f, magic = 12582912.0f;
  const float clamped = x < low ? low : x > high ? high : x;
  const float n = (clamped * 1.44269504088896341f + magic) - magic;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int whole = n == n ? static_cast<int>(n) : 0;
  const float y = p * __int_as_float((whole + 127) << 23);
  return x != x ? x : x < low ? 0.0f : x > high ? infinity() : y;
}

__device__ inline float logarithm(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const int b = __float_as_int(tiny ? x * 8388608.0f : x);
  int e = ((b >> 23) & 0xff) - 126;
  if (tiny) e -= 23;
  float m = __int_as_float((b & 0x007fffff) | 0x3f000000);
  const bool low = m < 0.707106781186547524f;
  if (low) e -= 1;
  m = (low ? m + m : m) - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float ef = static_cast<float>(e);
  float y = p * m * z;
  y = y + ef * -2.12194440e-4f;
  y = y - 0.5f * z;
  const float r = m + y + ef * 0.693359375f;
  return x == infinity() ? x : r;
}

__device__ inline float sigmoid(float x) {
  const float e = exponential(-fabsf(x));
  const float s = 1.0f / (1.0f + e);
  return x < 0.0f ? e * s : s;
}

__device__ inline float tangent_h(float x) {
  const float a = fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const float small = p * z * x + x;
  const float large = 1.0f - 2.0f / (exponential(a + a) + 1.0f);
  return a < 0.625f ? small : x < 0.0f ? -large : large;
}

constexpr float log_of_nothing = -85.1f;  // the original's floor
__device__ inline float safe_log(float x) { return x <= 0.0f ? log_of_nothing : x != x ? x : logarithm(x); }

__device__ inline float log_plus(float a, float b) {
  const float high = a > b ? a : b, low = a > b ? b : a;
  return a != a ? a : high + logarithm(1.0f + exponential(low - high));
}

__device__ inline float quotient(float a, float b) {
  constexpr float least = 1e-30f;
  return a / (fabsf(b) < least ? (b < 0.0f ? -least : least) : b);
}

// The result of a unary operation.
__device__ inline float mapped(UnaryOp op, float x) {
  switch (op) {
    case UnaryOp::copy:
      return x;
    case UnaryOp::negate:
      return -x;
    case UnaryOp::reciprocal:
      return x == 0.0f ? 0.0f : 1.0f / x;
    case UnaryOp::sigmoid:
      return sigmoid(x);
    case UnaryOp::tanh:
      return tangent_h(x);
    case UnaryOp::relu:
      return x < 0.0f ? 0.0f : x;
    case UnaryOp::exp:
      return exponential(x);
    case UnaryOp::log:
      return safe_log(x);
    case UnaryOp::sqrt:
      return sqrtf(x < 0.0f ? 0.0f : x);
    case UnaryOp::abs:
      return fabsf(x);
    case UnaryOp::floor:
      return floorf(x);
    case UnaryOp::ceil:
      return ceilf(x);
    case UnaryOp::round:
      return floorf(x + 0.5f);
    case UnaryOp::sin:
      return sinf(x);
    case UnaryOp::cosine:
      return cosf(x);
  }
  return 0.0f;
}

// Its derivative at x with result y, times d. Only what `derived_from` names is read.
__device__ inline float derivative(UnaryOp op, float x, float y, float d) {
  switch (op) {
    case UnaryOp::copy:
      return d;
    case UnaryOp::negate:
      return -d;
    case UnaryOp::reciprocal:
      return -(d * y * y);
    case UnaryOp::sigmoid:
      return d * y * (1.0f - y);
    case UnaryOp::tanh:
      return d * (1.0f - y * y);
    case UnaryOp::relu:
      return y > 0.0f ? d : 0.0f;
    case UnaryOp::exp:
      return d * y;
    case UnaryOp::log:
      return quotient(d, x);
    case UnaryOp::sqrt:
      return quotient(d, y + y);
    case UnaryOp::abs:
      return x > 0.0f ? d : x < 0.0f ? -d : 0.0f;
    case UnaryOp::sin:
      return d * cosf(x);
    case UnaryOp::cosine:
      return -(d * sinf(x));
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
      return 0.0f;
  }
  return 0.0f;
}

// The operands that a derivative reads; the others may have been freed.
enum class DerivedFrom { nothing, operand, result };
__host__ __device__ inline DerivedFrom derived_from(UnaryOp op) {
  switch (op) {
    case UnaryOp::reciprocal:
    case UnaryOp::sigmoid:
    case UnaryOp::tanh:
    case UnaryOp::relu:
    case UnaryOp::exp:
    case UnaryOp::sqrt:
      return DerivedFrom::result;
    case UnaryOp::log:
    case UnaryOp::abs:
    case UnaryOp::sin:
    case UnaryOp::cosine:
      return DerivedFrom::operand;
    default:
      return DerivedFrom::nothing;
  }
}

}  // namespace tutti::cuda
