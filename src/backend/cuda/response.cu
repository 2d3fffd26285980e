// SPDX-License-Identifier: Apache-2.0
// Response normalisation: a thread for each value looks at its neighbours among the channels, which are in the cache.
#include "backend/cuda/images.h"
#include "backend/cuda/math.h"
#include "backend/cuda/windows.h"

namespace tutti::cuda {
namespace {

struct Response {
  unsigned count, channels, radius;
  unsigned step;  // from channel to channel
  float bias, alpha, beta;
  explicit Response(const ResponseNormalization& op)
      : count(in_32_bits(op.extent.columns * op.extent.channels * op.extent.pixels)),
        channels(static_cast<unsigned>(op.extent.channels)),
        radius(static_cast<unsigned>(op.radius)),
        step(op.extent.format == Format::plain ? static_cast<unsigned>(op.extent.pixels) : 1),
        bias(static_cast<float>(op.bias)),
        alpha(static_cast<float>(op.alpha)),
        beta(static_cast<float>(op.beta)) {}

  // use(element) for the neighbours of element e in its pixel's channels, added up.
  template <class Use>
  __device__ float around(unsigned e, const Use& use) const {
    const unsigned c = e / step % channels;
    const unsigned before = c < radius ? c : radius, behind = c + radius < channels ? radius : channels - 1 - c;
    float sum = 0;
#pragma unroll 4
    for (unsigned i = e - before * step, k = 0; k <= before + behind; ++k, i += step) sum += use(i);
    return sum;
  }
  // d^-beta
  __device__ float power(float d) const { return exponential(logarithm(d) * -beta); }
};

__global__ void respond_each(Response r, const float* x, float* y, float* work) {
  for (unsigned e = first_element32(); e < r.count; e += element_step32()) {
    const float d = r.bias + r.alpha * r.around(e, [=](unsigned i) { return x[i] * x[i]; });
    work[e] = d;
    y[e] = x[e] * r.power(d);
  }
}

__global__ void respond_each_back(Response r, const float* x, const float* y, const float* dy, const float* work,
                                  float* dx, bool add) {
  const float slope = 2 * r.alpha * r.beta;
  for (unsigned e = first_element32(); e < r.count; e += element_step32()) {
    const float sum = r.around(e, [=](unsigned i) { return dy[i] * y[i] / work[i]; });
    const float g = dy[e] * r.power(work[e]) - slope * x[e] * sum;
    dx[e] = add ? dx[e] + g : g;
  }
}

}  // namespace

void CudaImages::respond(const ResponseNormalization& op, const float* x, float* y, float* work) {
  const Response r(op);
  if (r.count > 0) launch(respond_each, dim3(blocks_for(r.count)), dim3(threads_per_block), stream(), r, x, y, work);
}

void CudaImages::respond_gradient(const ResponseNormalization& op, const float* x, const float* y, const float* dy,
                                  const float* work, float* dx, bool accumulate) {
  const Response r(op);
  if (r.count > 0)
    launch(respond_each_back, dim3(blocks_for(r.count)), dim3(threads_per_block), stream(), r, x, y, dy, work, dx,
           accumulate);
}

}  // namespace tutti::cuda
