// SPDX-License-Identifier: Apache-2.0
// Normalisation over channels and the gradient of bias and ReLU. Sums over the values of a channel run in double: parts
// of the columns in blocks, then the parts in their order, so a shape gives the same bits every time.
#include <algorithm>
#include <cassert>

#include "backend/cuda/images.h"
#include "backend/cuda/math.h"
#include "backend/cuda/windows.h"

namespace tutti::cuda {
namespace {

struct TwoSums {
  double first = 0, second = 0;
};

// A block adds up a part of the columns of one channel: threads side by side take neighbouring pixels.
struct Parts {
  std::size_t columns, channels, pixels;
  unsigned parts, width;  // width: threads along the pixels, a power of two
  explicit Parts(const ImageExtent& e) : columns(e.columns), channels(e.channels), pixels(e.pixels) {
    width = 1;
    while (width < pixels && width < threads_per_block) width *= 2;
    // Enough blocks for the device, enough work for a block.
    constexpr std::size_t wanted_blocks = 1024, least_values = 4096;
    const std::size_t by_work = (columns * pixels + least_values - 1) / least_values;
    const std::size_t by_device = (wanted_blocks + channels - 1) / channels;
    parts = static_cast<unsigned>(std::max<std::size_t>(1, std::min({by_work, by_device, columns})));
  }
  unsigned blocks() const { return static_cast<unsigned>(channels * parts); }
};

// add(TwoSums&, element, channel) over the block's part; the block's sums go to sums[channel * parts + part].
template <class Add>
__device__ void sum_part(const Parts& p, TwoSums* sums, const Add& add) {
  __shared__ TwoSums of_threads[threads_per_block];
  const std::size_t channel = blockIdx.x / p.parts, part = blockIdx.x % p.parts;
  const unsigned across = threadIdx.x % p.width, down = threadIdx.x / p.width, rows = threads_per_block / p.width;
  TwoSums mine;
  for (std::size_t column = part * rows + down; column < p.columns; column += std::size_t{p.parts} * rows)
    for (std::size_t pixel = across; pixel < p.pixels; pixel += p.width)
      add(mine, (column * p.channels + channel) * p.pixels + pixel, channel);
  of_threads[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads_per_block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      of_threads[threadIdx.x].first += of_threads[threadIdx.x + half].first;
      of_threads[threadIdx.x].second += of_threads[threadIdx.x + half].second;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = of_threads[0];
}

__device__ inline TwoSums sum_of_parts(const TwoSums* sums, std::size_t channel, unsigned parts) {
  TwoSums all;
  for (unsigned i = 0; i < parts; ++i)
    all.first += sums[channel * parts + i].first, all.second += sums[channel * parts + i].second;
  return all;
}

// ---- batch normalisation

// `work` of a batch normalisation, by channel.
struct Kept {
  float *mean, *inverse, *batch_mean, *share;  // share: of the minibatch in what normalises
  Kept(float* work, std::size_t n) : mean(work), inverse(work + n), batch_mean(work + 2 * n), share(work + 3 * n) {}
};

__global__ void moments(Parts p, const float* x, TwoSums* sums) {
  sum_part(p, sums, [=](TwoSums& s, std::size_t e, std::size_t) {
    const auto v = static_cast<double>(x[e]);
    s.first += v, s.second += v * v;
  });
}

__device__ inline float mixed(double weight, float running, double fresh) {
  return static_cast<float>(weight * static_cast<double>(running) + (1 - weight) * fresh);
}

__global__ void settle(BatchNormalization op, NormalizationParameters of, Parts p, const TwoSums* sums, Kept kept) {
  for (std::size_t c = first_element(); c < p.channels; c += element_step()) {
    double mean = 0, variance = 0;
    if (op.training) {
      const TwoSums s = sum_of_parts(sums, c, p.parts);
      const auto count = static_cast<double>(p.columns * p.pixels);
      mean = s.first / count;
      variance = s.second / count - mean * mean;
      variance = variance < 0 ? 0 : variance;
    }
    const double blend = op.training ? op.running_weight : 1;
    kept.mean[c] = mixed(blend, of.mean[c], mean);
    kept.batch_mean[c] = static_cast<float>(mean);
    kept.inverse[c] =
        static_cast<float>(1 / sqrt(blend * static_cast<double>(of.variance[c]) + (1 - blend) * variance + op.epsilon));
    kept.share[c] = static_cast<float>(1 - blend);
    if (!op.training) continue;
    of.mean[c] = mixed(1 - op.update, of.mean[c], mean);
    of.variance[c] = mixed(1 - op.update, of.variance[c], variance);
  }
}

__global__ void apply(unsigned count, unsigned channels, unsigned pixels, bool relu, NormalizationParameters of,
                      Kept kept, const float* x, const float* added, float* y) {
  for (unsigned e = first_element32(); e < count; e += element_step32()) {
    const unsigned c = e / pixels % channels;
    float v = (x[e] - kept.mean[c]) * (kept.inverse[c] * of.scale[c]) + of.bias[c];
    if (added) v += added[e];
    y[e] = relu && v < 0.0f ? 0.0f : v;
  }
}

// Through ReLU; the masked gradient goes where it is wanted.
__global__ void gradient_sums(Parts p, const float* x, const float* y, const float* dy, float* masked, float* added,
                              const float* mean, TwoSums* sums) {
  sum_part(p, sums, [=](TwoSums& s, std::size_t e, std::size_t c) {
    const float center = mean[c];
    const float d = !y || y[e] > 0.0f ? dy[e] : 0.0f;
    if (masked != dy || y) masked[e] = d;
    if (added) added[e] += d;
    s.first += static_cast<double>(d);
    s.second += static_cast<double>(d * (x[e] - center));
  });
}

struct Slopes {
  float *scale, *slope, *shift;
};

__global__ void settle_gradient(Parts p, const TwoSums* sums, Kept kept, const float* scale, NormalizationGradients to,
                                Slopes slopes) {
  const auto count = static_cast<double>(p.pixels * p.columns);
  for (std::size_t c = first_element(); c < p.channels; c += element_step()) {
    const TwoSums s = sum_of_parts(sums, c, p.parts);
    const auto inverse = static_cast<double>(kept.inverse[c]);
    const double factor = inverse * static_cast<double>(scale[c]);
    const double share = factor * static_cast<double>(kept.share[c]) / count;
    slopes.scale[c] = static_cast<float>(factor);
    slopes.slope[c] = static_cast<float>(share * inverse * inverse * s.second);
    slopes.shift[c] = static_cast<float>(share * s.first);
    const auto dscale = static_cast<float>(inverse * s.second), dbias = static_cast<float>(s.first);
    if (to.scale) to.scale[c] = to.add_scale ? to.scale[c] + dscale : dscale;
    if (to.bias) to.bias[c] = to.add_bias ? to.bias[c] + dbias : dbias;
  }
}

__global__ void apply_gradient(unsigned count, unsigned channels, unsigned pixels, Slopes slopes, const float* center,
                               const float* x, const float* dy, float* dx, bool add) {
  for (unsigned e = first_element32(); e < count; e += element_step32()) {
    const unsigned c = e / pixels % channels;
    const float g = (dy[e] * slopes.scale[c] - slopes.shift[c]) - (x[e] - center[c]) * slopes.slope[c];
    dx[e] = add ? dx[e] + g : g;
  }
}

// ---- bias and ReLU

__global__ void masked_sums(Parts p, const float* y, float* dy, TwoSums* sums) {
  sum_part(p, sums, [=](TwoSums& s, std::size_t e, std::size_t) {
    const float d = !y || y[e] > 0.0f ? dy[e] : 0.0f;
    if (y) dy[e] = d;
    s.first += static_cast<double>(d);
  });
}

__global__ void settle_bias(Parts p, const TwoSums* sums, float* dbias, bool add) {
  for (std::size_t c = first_element(); c < p.channels; c += element_step()) {
    const auto sum = static_cast<float>(sum_of_parts(sums, c, p.parts).first);
    dbias[c] = (add ? dbias[c] : 0.0f) + sum;
  }
}

// ---- response normalisation

struct Response {
  std::size_t columns, channels, pixels, radius;
  float bias, alpha, beta;
  explicit Response(const ResponseNormalization& op)
      : columns(op.extent.columns),
        channels(op.extent.channels),
        pixels(op.extent.pixels),
        radius(op.radius),
        bias(static_cast<float>(op.bias)),
        alpha(static_cast<float>(op.alpha)),
        beta(static_cast<float>(op.beta)) {}
  std::size_t count() const { return columns * channels * pixels; }

  // use(element) for the neighbours of element e in its pixel's channels, added up.
  template <class Use>
  __device__ float around(std::size_t e, const Use& use) const {
    const std::size_t c = e / pixels % channels;
    const std::size_t first = c < radius ? 0 : c - radius, last = c + radius < channels ? c + radius : channels - 1;
    float sum = 0;
    for (std::size_t k = first; k <= last; ++k) sum += use(e - c * pixels + k * pixels);
    return sum;
  }
  // d^-beta
  __device__ float power(float d) const { return exponential(logarithm(d) * -beta); }
};

__global__ void respond_each(Response r, const float* x, float* y, float* work) {
  for (std::size_t e = first_element(); e < r.columns * r.channels * r.pixels; e += element_step()) {
    const float d = r.bias + r.alpha * r.around(e, [=](std::size_t i) { return x[i] * x[i]; });
    work[e] = d;
    y[e] = x[e] * r.power(d);
  }
}

__global__ void respond_each_back(Response r, const float* x, const float* y, const float* dy, const float* work,
                                  float* dx, bool add) {
  const float slope = 2 * r.alpha * r.beta;
  for (std::size_t e = first_element(); e < r.columns * r.channels * r.pixels; e += element_step()) {
    const float sum = r.around(e, [=](std::size_t i) { return dy[i] * y[i] / work[i]; });
    const float g = dy[e] * r.power(work[e]) - slope * x[e] * sum;
    dx[e] = add ? dx[e] + g : g;
  }
}

std::size_t count_of(const ImageExtent& e) { return e.columns * e.channels * e.pixels; }
unsigned blocks_of(const ImageExtent& e) { return blocks_for(count_of(e)); }

}  // namespace

void CudaImages::normalize(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                           const float* added, float* y, float* work) {
  assert(op.extent.format == Format::plain);
  if (op.extent.columns == 0) return;
  const Parts p(op.extent);
  const Kept kept(work, op.extent.channels);
  auto* sums = sums_.room<TwoSums>(p.blocks());
  if (op.training) launch(moments, dim3(p.blocks()), dim3(threads_per_block), stream(), p, x, sums);
  launch(settle, dim3(blocks_for(p.channels)), dim3(threads_per_block), stream(), op, of, p, sums, kept);
  launch(apply, dim3(blocks_of(op.extent)), dim3(threads_per_block), stream(), in_32_bits(count_of(op.extent)),
         p.channels, p.pixels, op.relu, of, kept, x, added, y);
}

void CudaImages::normalize_gradient(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                                    const float* y, float* dy, const float* work, const NormalizationGradients& to) {
  if (op.extent.columns == 0) return;
  const Parts p(op.extent);
  const Kept kept(const_cast<float*>(work), op.extent.channels);
  // Sums, then three floats for each channel.
  auto* sums = sums_.room<TwoSums>(p.blocks() + 2 * p.channels);
  auto* floats = reinterpret_cast<float*>(sums + p.blocks());
  const Slopes slopes{floats, floats + p.channels, floats + 2 * p.channels};
  // The gradient before ReLU goes where it is wanted anyway, or over dy.
  float* masked = to.added && !to.add_added ? to.added : dy;
  launch(gradient_sums, dim3(p.blocks()), dim3(threads_per_block), stream(), p, x, op.relu ? y : nullptr, dy, masked,
         to.add_added ? to.added : nullptr, kept.mean, sums);
  launch(settle_gradient, dim3(blocks_for(p.channels)), dim3(threads_per_block), stream(), p, sums, kept, of.scale, to,
         slopes);
  if (to.x)
    launch(apply_gradient, dim3(blocks_of(op.extent)), dim3(threads_per_block), stream(),
           in_32_bits(count_of(op.extent)), p.channels, p.pixels, slopes, kept.batch_mean, x, masked, to.x, to.add_x);
}

void CudaImages::bias_relu_gradient(const ImageExtent& extent, const float* y, float* dy, float* dbias,
                                    bool accumulate) {
  assert(extent.format == Format::plain);
  if (extent.columns == 0) {
    if (dbias && !accumulate) check(cudaMemsetAsync(dbias, 0, extent.channels * sizeof(float), stream()), "clearing");
    return;
  }
  const Parts p(extent);
  auto* sums = sums_.room<TwoSums>(p.blocks());
  launch(masked_sums, dim3(p.blocks()), dim3(threads_per_block), stream(), p, y, dy, sums);
  if (dbias)
    launch(settle_bias, dim3(blocks_for(p.channels)), dim3(threads_per_block), stream(), p, sums, dbias, accumulate);
}

void CudaImages::respond(const ResponseNormalization& op, const float* x, float* y, float* work) {
  const Response r(op);
  if (r.count() > 0)
    launch(respond_each, dim3(blocks_for(r.count())), dim3(threads_per_block), stream(), r, x, y, work);
}

void CudaImages::respond_gradient(const ResponseNormalization& op, const float* x, const float* y, const float* dy,
                                  const float* work, float* dx, bool accumulate) {
  const Response r(op);
  if (r.count() > 0)
    launch(respond_each_back, dim3(blocks_for(r.count())), dim3(threads_per_block), stream(), r, x, y, dy, work, dx,
           accumulate);
}

}  // namespace tutti::cuda
