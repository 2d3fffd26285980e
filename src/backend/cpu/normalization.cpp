// SPDX-License-Identifier: Apache-2.0
// Normalisation over channels, and the gradient of bias and ReLU. Sums are float over the pixels of a column and double
// over the columns. Threads take groups of channels, so their number never changes a result.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/images.h"
#include "backend/cpu/planes.h"

namespace tutti::cpu {
namespace {

using Totals = std::array<double, image_lanes>;

// `work` of a batch normalisation, by channel.
struct Kept {
  float *mean, *inverse, *batch_mean, *share;  // share: of the minibatch in what normalises
  Kept(float* work, const Planes& p) {
    const std::size_t n = p.stored();
    mean = work, inverse = work + n, batch_mean = work + 2 * n, share = work + 3 * n;
  }
};

// Mean and variance of the columns, per channel of the group. Summed relative to the mean of the first column, so that
// squares do not cancel.
void moments(const ImageKernels& kernels, const Planes& p, const float* x, std::size_t g, Totals& mean,
             Totals& variance) {
  const auto per_column = static_cast<double>(p.pixels);
  Lanes center;
  {
    Lanes sum, square;
    kernels.moments(x + p.at(0, g), p.run(g), center, sum, square);
    Totals totals{};
    p.fold(sum, totals);
    for (std::size_t i = 0; i < image_lanes; ++i) center.v[i] = static_cast<float>(totals[i % p.period] / per_column);
  }
  Totals sums{}, squares{};
  for (std::size_t c = 0; c < p.columns; ++c) {
    Lanes sum, square;
    kernels.moments(x + p.at(c, g), p.run(g), center, sum, square);
    p.fold(sum, sums), p.fold(square, squares);
  }
  const double count = per_column * static_cast<double>(p.columns);
  for (std::size_t i = 0; i < p.period; ++i) {
    const double shift = sums[i] / count;
    mean[i] = static_cast<double>(center.v[i]) + shift;
    variance[i] = std::max(0.0, squares[i] / count - shift * shift);
  }
}

// Sum and sum of squares by channel, then over all ranks; returns the number of values.
double sum_over_ranks(SumOverRanks& ranks, const Planes& p, std::vector<Totals>& first, std::vector<Totals>& second) {
  std::vector<double> sums(2 * p.channels);
  const auto visit = [&](const auto& f) {
    for (std::size_t c = 0; c < p.channels; ++c)
      f(sums[2 * c], first[c / p.period][c % p.period]), f(sums[2 * c + 1], second[c / p.period][c % p.period]);
  };
  visit([](double& sum, double mine) { sum = mine; });
  const double count = ranks.sum(sums, static_cast<double>(p.pixels * p.columns));
  visit([](double sum, double& all) { all = sum; });
  return count;
}

// The statistics of all ranks, from those of this one. False if no rank has a column.
bool moments_of_all(SumOverRanks& ranks, const Planes& p, std::vector<Totals>& mean, std::vector<Totals>& variance) {
  const auto count = static_cast<double>(p.pixels * p.columns);
  for (std::size_t g = 0; g < mean.size(); ++g)
    for (std::size_t i = 0; i < image_lanes; ++i) {
      variance[g][i] = count * (variance[g][i] + mean[g][i] * mean[g][i]);
      mean[g][i] *= count;
    }
  const double all = sum_over_ranks(ranks, p, mean, variance);
  if (all == 0) return false;
  for (std::size_t g = 0; g < mean.size(); ++g)
    for (std::size_t i = 0; i < image_lanes; ++i) {
      mean[g][i] /= all;
      variance[g][i] = std::max(0.0, variance[g][i] / all - mean[g][i] * mean[g][i]);
    }
  return true;
}

float mixed(double weight, float running, double fresh) {
  return static_cast<float>(weight * static_cast<double>(running) + (1 - weight) * fresh);
}

// Completes the normalisation of a group of channels and its running statistics.
void finish_statistics(const BatchNormalization& op, const NormalizationParameters& of, const Planes& p, std::size_t g,
                       const Totals& mean, const Totals& variance, const Kept& kept) {
  for (std::size_t i = 0; i < p.in_group(g); ++i) {
    const std::size_t c = g * p.period + i;
    const double blend = op.weights ? op.weights->running : 1;
    kept.mean[c] = mixed(blend, of.mean[c], mean[i]);
    kept.batch_mean[c] = static_cast<float>(mean[i]);
    kept.inverse[c] = static_cast<float>(
        1 / std::sqrt(blend * static_cast<double>(of.variance[c]) + (1 - blend) * variance[i] + op.epsilon));
    kept.share[c] = static_cast<float>(1 - blend);
    if (!op.weights) continue;
    of.mean[c] = mixed(1 - op.weights->update, of.mean[c], mean[i]);
    of.variance[c] = mixed(1 - op.weights->update, of.variance[c], variance[i]);
  }
}

}  // namespace

void CpuImages::normalize(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                          const float* added, float* y, float* work) {
  const Planes p(op.extent, channel_block());
  const Kept kept(work, p);
  if (p.columns == 0 && !op.ranks) return;
  const auto apply = [&](std::size_t g, const Totals& mean, const Totals& variance) {
    finish_statistics(op, of, p, g, mean, variance, kept);
    Affine affine;
    affine.center = p.lanes(kept.mean, g);
    affine.scale = p.lanes(kept.inverse, g);
    const Lanes scale = p.lanes(of.scale, g);
    for (std::size_t i = 0; i < image_lanes; ++i) affine.scale.v[i] *= scale.v[i];
    affine.shift = p.lanes(of.bias, g);
    for (std::size_t c = 0; c < p.columns; ++c) {
      const std::size_t at = p.at(c, g);
      images_.normalize(x + at, added ? added + at : nullptr, affine, op.relu, y + at, p.run(g));
    }
  };
  if (op.ranks) {
    std::vector<Totals> mean(p.groups), variance(p.groups);
    if (p.columns > 0) p.each_group([&](std::size_t g) { moments(images_, p, x, g, mean[g], variance[g]); });
    if (moments_of_all(*op.ranks, p, mean, variance))
      p.each_group([&](std::size_t g) { apply(g, mean[g], variance[g]); });
    return;
  }
  p.each_group([&](std::size_t g) {
    Totals mean{}, variance{};
    if (op.weights) moments(images_, p, x, g, mean, variance);
    apply(g, mean, variance);
  });
}

void CpuImages::normalize_gradient(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                                   const float* y, float* dy, const float* work, const NormalizationGradients& to) {
  const Planes p(op.extent, channel_block());
  const Kept kept(const_cast<float*>(work), p);
  // The gradient before ReLU is written where it is wanted anyway, or over dy.
  float* masked = to.added && !to.add_added ? to.added : dy;
  const auto sum = [&](std::size_t g, Totals& sums, Totals& products) {
    const Lanes mean = p.lanes(kept.mean, g);
    for (std::size_t c = 0; c < p.columns; ++c) {
      const std::size_t at = p.at(c, g);
      Lanes sum, product;
      images_.gradient_sums(x + at, op.relu ? y + at : nullptr, dy + at, masked + at, mean, sum, product, p.run(g));
      p.fold(sum, sums), p.fold(product, products);
      if (to.added && to.add_added) kernels_.add(masked + at, to.added + at, p.run(g));
    }
    // Gradients of this rank's columns; they are summed over the ranks like all others.
    for (std::size_t i = 0; i < p.in_group(g); ++i) {
      const std::size_t c = g * p.period + i;
      const auto dscale = static_cast<float>(static_cast<double>(kept.inverse[c]) * products[i]);
      const auto dbias = static_cast<float>(sums[i]);
      if (to.scale) to.scale[c] = to.add_scale ? to.scale[c] + dscale : dscale;
      if (to.bias) to.bias[c] = to.add_bias ? to.bias[c] + dbias : dbias;
    }
  };
  const auto apply = [&](std::size_t g, const Totals& sums, const Totals& products, double count) {
    if (!to.x) return;
    Lanes scale, slope, shift;
    for (std::size_t i = 0; i < p.in_group(g); ++i) {
      const std::size_t c = g * p.period + i;
      const auto inverse = static_cast<double>(kept.inverse[c]);
      const double factor = inverse * static_cast<double>(of.scale[c]);
      const double share = factor * static_cast<double>(kept.share[c]) / count;
      scale.v[i] = static_cast<float>(factor);
      slope.v[i] = static_cast<float>(share * inverse * inverse * products[i]);
      shift.v[i] = static_cast<float>(share * sums[i]);
    }
    for (std::size_t i = p.period; i < image_lanes; ++i)
      scale.v[i] = scale.v[i % p.period], slope.v[i] = slope.v[i % p.period], shift.v[i] = shift.v[i % p.period];
    const Lanes center = p.lanes(kept.batch_mean, g);
    for (std::size_t c = 0; c < p.columns; ++c) {
      const std::size_t at = p.at(c, g);
      images_.normalize_gradient(x + at, masked + at, center, scale, slope, shift, to.x + at, p.run(g), to.add_x);
    }
  };
  if (op.ranks) {
    std::vector<Totals> sums(p.groups), products(p.groups);
    p.each_group([&](std::size_t g) { sum(g, sums[g], products[g]); });
    const double count = sum_over_ranks(*op.ranks, p, sums, products);
    if (count > 0) p.each_group([&](std::size_t g) { apply(g, sums[g], products[g], count); });
    return;
  }
  p.each_group([&](std::size_t g) {
    Totals sums{}, products{};
    sum(g, sums, products);
    apply(g, sums, products, static_cast<double>(p.pixels * p.columns));
  });
}

void CpuImages::bias_relu_gradient(const ImageExtent& extent, const float* y, float* dy, float* dbias,
                                   bool accumulate) {
  const Planes p(extent, channel_block());
  p.each_group([&](std::size_t g) {
    Totals totals{};
    for (std::size_t c = 0; c < p.columns; ++c) {
      Lanes sum;
      images_.masked_sum(y ? y + p.at(c, g) : nullptr, dy + p.at(c, g), sum, p.run(g));
      p.fold(sum, totals);
    }
    if (!dbias) return;
    for (std::size_t i = 0; i < p.in_group(g); ++i) {
      float& target = dbias[g * p.period + i];
      target = (accumulate ? target : 0.0f) + static_cast<float>(totals[i]);
    }
  });
}

namespace {

Response described(const ResponseNormalization& op) {
  return {op.extent.channels, op.radius, static_cast<float>(op.bias), static_cast<float>(op.alpha),
          static_cast<float>(op.beta)};
}

// f(offset of the part, pixels) for parts of columns.
template <class F>
void each_part(const ImageExtent& e, const Planes& p, const F& f) {
  constexpr std::size_t unit = 64;
  const std::size_t parts = (e.pixels + unit - 1) / unit, width = e.format == Format::blocked ? p.period : 1;
  parallel(e.columns * parts, 1, unit * p.channels * 8, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i % parts * unit;
      f(i / parts * p.column_step + first * width, std::min(unit, e.pixels - first));
    }
  });
}

}  // namespace

void CpuImages::respond(const ResponseNormalization& op, const float* x, float* y, float* work) {
  const Planes p(op.extent, channel_block());
  const Response r = described(op);
  each_part(op.extent, p, [&](std::size_t at, std::size_t pixels) {
    if (op.extent.format == Format::blocked)
      images_.respond_blocked(r, p.period, x + at, y + at, work + at, pixels, p.group_step);
    else
      images_.respond_plain(r, x + at, y + at, work + at, pixels, op.extent.pixels);
  });
}

void CpuImages::respond_gradient(const ResponseNormalization& op, const float* x, const float* y, const float* dy,
                                 const float* work, float* dx, bool accumulate) {
  const Planes p(op.extent, channel_block());
  const Response r = described(op);
  each_part(op.extent, p, [&](std::size_t at, std::size_t pixels) {
    if (op.extent.format == Format::blocked)
      images_.respond_gradient_blocked(r, p.period, x + at, y + at, dy + at, work + at, dx + at, pixels, p.group_step,
                                       accumulate);
    else
      images_.respond_gradient_plain(r, x + at, y + at, dy + at, work + at, dx + at, pixels, op.extent.pixels,
                                     accumulate);
  });
}

}  // namespace tutti::cpu
