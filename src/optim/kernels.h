// SPDX-License-Identifier: Apache-2.0
// kernels.h -- the element loops of the update rules, compiled for several instruction sets. All sets give the same
// bits: elements are independent, operations are not contracted, and sums run in 16 fixed lanes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {
struct FloatMemory;
}

namespace tutti::optim {

struct RmsConstants {
  float gamma, increase, decrease, largest, smallest;
};
struct FsAdagradConstants {
  float keep, target, momentum, rate;  // keep = exp(-N/T); target = fsAdagradTargetAvDenom * sqrt(count)
};
struct AdamConstants {
  float beta1, beta2, inverse_n, rate, root_correction, epsilon;
};
struct TextbookConstants {
  float decay, inverse_n, rate, epsilon;
};

struct Kernels {
  const char* name;
  std::size_t block;  // floats that all options are applied to at a time, so that they stay in the first-level cache
  // w -= rate g
  void (*descend)(float* w, const float* g, std::size_t n, float rate);
  // s = mu s + gain g; w -= s
  void (*momentum)(float* w, const float* g, float* s, std::size_t n, float mu, float gain);
  // s = mu s + gain g; w -= mu s + gain g
  void (*nesterov)(float* w, const float* g, float* s, std::size_t n, float mu, float gain);
  // The rule of sparse gradients keeps the rate out of s: s = mu s + (1-mu) g; w -= rate s.
  void (*sparse_momentum)(float* w, const float* g, float* s, std::size_t n, float mu, float rate);
  void (*sparse_nesterov)(float* w, const float* g, float* s, std::size_t n, float mu, float rate);

  void (*truncate)(float* g, std::size_t n, float limit);
  void (*add_scaled)(float* g, const float* w, std::size_t n, float factor);
  void (*shrink)(float* w, std::size_t n, float threshold);
  void (*clear)(float* s, std::size_t n);
  // w[i] += deviation * gaussian(step, first + i), see noise.h
  void (*add_noise)(float* w, std::size_t n, double deviation, std::uint64_t step, std::uint64_t first);

  // Sums over a whole parameter are in the same kind of memory as the weights; only the kernels read them.
  void (*clear_sums)(double* sums, std::size_t count);
  void (*add_squares)(const float* g, std::size_t n, double* sum);
  // g *= limit / norm if the norm, the root of *squares, is above the limit.
  void (*limit_norm)(float* g, std::size_t n, const double* squares, double limit);
  // Scale g in place; the multipliers are added to *sum, which may be null.
  void (*adagrad)(float* g, float* a, std::size_t n, double* sum);
  void (*rms_prop)(float* g, float* a, float* step, float* sign, std::size_t n, const RmsConstants&, double* sum);
  // w -= rate / mean g, where *sum is `count` times the mean
  void (*descend_by_mean)(float* w, const float* g, std::size_t n, float rate, const double* sum, std::size_t count);

  void (*fs_adagrad)(float* w, const float* g, float* a, float* m, std::size_t n, const FsAdagradConstants&);
  void (*adam)(float* w, const float* g, float* m, float* v, std::size_t n, const AdamConstants&);
  void (*rms_prop_textbook)(float* w, const float* g, float* a, std::size_t n, const TextbookConstants&);

  // Adam whose v stands still. Null on devices.
  // g = share m + fresh g, 0 where v is 0
  void (*contribute)(float* g, const float* m, const float* v, std::size_t n, float share, float fresh);
  // m = beta1 m + g, 0 where v is 0; w -= rate m / (sqrt(v) root_correction + epsilon)
  void (*frozen_adam)(float* w, const float* g, float* m, const float* v, std::size_t n, const AdamConstants&);

  // What is asked for in between may be done at the end, the runs of one function together: first squares, then what
  // clips to a norm, what truncates, penalties, what scales, rules, noise, shrinkage. So each of these comes at most
  // once for an element, in this order; what is added to one sum comes in a row. A penalty right before the rule of the
  // same run may be left out of g. Null where there is nothing to be gained.
  void (*begin_together)();
  void (*end_together)();
};

const Kernels& portable_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
#endif
// The widest set this processor runs.
const Kernels& best_kernels();
// For weights in that memory: the device's if they are a device's.
const Kernels& kernels_for(const FloatMemory&);

void add_noise(float* w, std::size_t n, double deviation, std::uint64_t step, std::uint64_t first);

}  // namespace tutti::optim
