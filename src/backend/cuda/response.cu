// SPDX-License-Identifier: Apache-2.0
// Response normalisation: a thread looks at the neighbours of its values among the channels, which are in the cache.
// Channels that lie last go in fours, so that what is made of a neighbour, and where it stands, serves four sums.
#include <type_traits>

#include "backend/cuda/divisor.h"
#include "backend/cuda/images.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/math.h"

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

  // use(element) for the neighbours of V channels side by side from element e on, added up for each of them in the
  // order of the channels.
  template <unsigned V, class Use>
  __device__ Lanes<V> around(unsigned e, const Use& use) const {
    unsigned pixel = by_step.quotient(e);
    const unsigned c = channels.split(pixel), left = channels.size - V - c;
    const unsigned before = c < radius ? c : radius, behind = left < radius ? left : radius;
    Lanes<V> sums{};
#pragma unroll 4
    for (unsigned i = e - before * step, k = 0; k < before + V + behind; ++k, i += step) {
      const float term = use(i);
      for (unsigned l = 0; l < V; ++l)
        if (before + l <= k + radius && k <= before + l + radius) sums.at[l] += term;
    }
    return sums;
  }
  // d^-beta
  __device__ float power(float d) const { return exponential(logarithm(d) * -beta); }
};

template <class T, unsigned V>
__global__ void respond_each(Response r, const T* x, T* y, float* work) {
  for (unsigned e = first_element32() * V; e < r.count; e += element_step32() * V) {
    Lanes<V> d = r.around<V>(e, [=](unsigned i) { return value_of(x[i]) * value_of(x[i]); });
    Lanes<V> v = load<V>(x + e);
    for (unsigned l = 0; l < V; ++l) d.at[l] = r.bias + r.alpha * d.at[l], v.at[l] *= r.power(d.at[l]);
    store(work + e, d);
    store(y + e, v);
  }
}

template <class T, unsigned V>
__global__ void respond_each_back(Response r, const T* x, const T* y, const T* dy, const float* work, T* dx, bool add) {
  const float slope = 2 * r.alpha * r.beta;
  for (unsigned e = first_element32() * V; e < r.count; e += element_step32() * V) {
    const Lanes<V> sums = r.around<V>(e, [=](unsigned i) { return value_of(dy[i]) * value_of(y[i]) / work[i]; });
    const Lanes<V> v = load<V>(x + e), d = load<V>(work + e);
    Lanes<V> g = load<V>(dy + e);
    for (unsigned l = 0; l < V; ++l) g.at[l] = g.at[l] * r.power(d.at[l]) - slope * v.at[l] * sums.at[l];
    put(dx + e, g, add);
  }
}

// use(a number of the type, channels of a thread) with constants.
template <class Use>
void in_channels(const ImageExtent& e, std::initializer_list<const void*> all, const Use& use) {
  with_type(e.element, [&](auto number) {
    if (e.format == Format::blocked && in_whole_lanes<float>(e.channels, all))
      use(number, std::integral_constant<unsigned, 4>{});
    else
      use(number, std::integral_constant<unsigned, 1>{});
  });
}

}  // namespace

void CudaImages::respond(const ResponseNormalization& op, const float* x, float* y, float* work) {
  const Response r(op);
  if (r.count == 0) return;
  in_channels(op.extent, {x, y, work}, [&](auto number, auto lanes) {
    using T = decltype(number);
    launch_for(respond_each<T, lanes>, r.count / lanes, stream(), r, as<T>(x), as<T>(y), work);
  });
}

void CudaImages::respond_gradient(const ResponseNormalization& op, const float* x, const float* y, const float* dy,
                                  const float* work, float* dx, bool accumulate) {
  const Response r(op);
  if (r.count == 0) return;
  in_channels(op.extent, {x, y, dy, work, dx}, [&](auto number, auto lanes) {
    using T = decltype(number);
    launch_for(respond_each_back<T, lanes>, r.count / lanes, stream(), r, as<T>(x), as<T>(y), as<T>(dy), work,
               as<T>(dx), accumulate);
  });
}

}  // namespace tutti::cuda
