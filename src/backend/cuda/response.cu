// SPDX-License-Identifier: Apache-2.0
// Response normalisation: a thread for each value looks at its neighbours among the channels, which are in the cache.
#include "backend/cuda/divisor.h"
#include "backend/cuda/images.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/math.h"
#include "backend/cuda/windows.h"

namespace tutti::cuda {
namespace {

struct Response {
  unsigned count, radius;
  Axis channels;
  unsigned step;  // from channel to channel
  Divisor by_step;
  float bias, alpha, beta;
  explicit Response(const ResponseNormalization& op)
      : count(in_32_bits(op.extent.columns * op.extent.channels * op.extent.pixels)),
        radius(static_cast<unsigned>(op.radius)),
        channels(op.extent.channels),
        step(op.extent.format == Format::plain ? static_cast<unsigned>(op.extent.pixels) : 1),
        by_step(step),
        bias(static_cast<float>(op.bias)),
        alpha(static_cast<float>(op.alpha)),
        beta(static_cast<float>(op.beta)) {}

  // use(element) for the neighbours of element e in its pixel's channels, added up.
  template <class Use>
  __device__ float around(unsigned e, const Use& use) const {
    unsigned pixel = by_step.quotient(e);
    const unsigned c = channels.split(pixel), last = channels.size - 1;
    const unsigned before = c < radius ? c : radius, behind = c + radius < channels.size ? radius : last - c;
    float sum = 0;
#pragma unroll 4
    for (unsigned i = e - before * step, k = 0; k <= before + behind; ++k, i += step) sum += use(i);
    return sum;
  }
  // d^-beta
  __device__ float power(float d) const { return exponential(logarithm(d) * -beta); }
};

template <class T>
__global__ void respond_each(Response r, const T* x, T* y, float* work) {
  for (unsigned e = first_element32(); e < r.count; e += element_step32()) {
    const float d = r.bias + r.alpha * r.around(e, [=](unsigned i) { return value_of(x[i]) * value_of(x[i]); });
    work[e] = d;
    round_to(y[e], value_of(x[e]) * r.power(d));
  }
}

template <class T>
__global__ void respond_each_back(Response r, const T* x, const T* y, const T* dy, const float* work, T* dx, bool add) {
  const float slope = 2 * r.alpha * r.beta;
  for (unsigned e = first_element32(); e < r.count; e += element_step32()) {
    const float sum = r.around(e, [=](unsigned i) { return value_of(dy[i]) * value_of(y[i]) / work[i]; });
    const float g = value_of(dy[e]) * r.power(work[e]) - slope * value_of(x[e]) * sum;
    put(dx + e, Lanes<1>{{g}}, add);
  }
}

}  // namespace

void CudaImages::respond(const ResponseNormalization& op, const float* x, float* y, float* work) {
  const Response r(op);
  if (r.count == 0) return;
  with_type(op.extent.element, [&](auto number) {
    using T = decltype(number);
    launch(respond_each<T>, blocks_for(r.count), threads_per_block, stream(), r, as<T>(x), as<T>(y), work);
  });
}

void CudaImages::respond_gradient(const ResponseNormalization& op, const float* x, const float* y, const float* dy,
                                  const float* work, float* dx, bool accumulate) {
  const Response r(op);
  if (r.count == 0) return;
  with_type(op.extent.element, [&](auto number) {
    using T = decltype(number);
    launch(respond_each_back<T>, blocks_for(r.count), threads_per_block, stream(), r, as<T>(x), as<T>(y), as<T>(dy),
           work, as<T>(dx), accumulate);
  });
}

}  // namespace tutti::cuda
