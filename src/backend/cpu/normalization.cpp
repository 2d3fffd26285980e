// SPDX-License-Identifier: Apache-2.0
// Operations over the channels of images: change of format, normalisation, and the gradient of bias and ReLU. Sums are
// float over the pixels of a column and double over the columns. Threads take groups of channels, so their number never
// changes a result.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/images.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Divides columns of images into groups of channels for the loops of kernels.h: one run of floats per column and group,
// in which channels repeat with a period.
struct Planes {
  std::size_t columns, channels, groups, period, pixels, group_step, column_step;

  Planes(const ImageExtent& e, std::size_t block) : columns(e.columns), channels(e.channels), pixels(e.pixels) {
    const bool side_by_side = e.format == Format::plain && e.pixels == 1;  // neighbours are channels
    period = e.format == Format::blocked ? block : side_by_side ? image_lanes : 1;
    groups = (channels + period - 1) / period;
    group_step = pixels * period;
    column_step = e.format == Format::blocked ? groups * group_step : channels * pixels;
  }
  std::size_t stored() const { return groups * period; }
  // Floats of a run; the last group of contiguous channels may be short.
  std::size_t run(std::size_t group) const { return std::min(group_step, column_step - group * group_step); }
  std::size_t at(std::size_t column, std::size_t group) const { return column * column_step + group * group_step; }
  std::size_t in_group(std::size_t group) const { return std::min(period, channels - group * period); }

  // values[channel] in every lane, 0 for missing channels.
  Lanes lanes(const float* values, std::size_t group) const {
    Lanes l;
    const std::size_t present = in_group(group);
    for (std::size_t i = 0; i < image_lanes; ++i)
      if (i % period < present) l.v[i] = values[group * period + i % period];
    return l;
  }
  // Adds the lanes of a sum to the totals by channel of the group.
  void fold(const Lanes& sum, std::array<double, image_lanes>& totals) const {
    for (std::size_t i = 0; i < image_lanes; ++i) totals[i % period] += static_cast<double>(sum.v[i]);
  }
  template <class F>
  void each_group(const F& f) const {
    parallel(groups, 1, columns * group_step, [&](std::size_t begin, std::size_t end) {
      for (std::size_t g = begin; g < end; ++g) f(g);
    });
  }
};

using Totals = std::array<double, image_lanes>;

// `work` of a batch normalisation, by channel.
struct KeptStatistics {
  float *mean, *inverse, *batch_mean, *share;  // share: of the minibatch in what normalises
  KeptStatistics(float* work, const Planes& p) {
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

// The statistics of all ranks, from those of this one; returns the number of values.
double moments_of_all(SumOverRanks& ranks, const Planes& p, std::vector<Totals>& mean, std::vector<Totals>& variance) {
  const auto count = static_cast<double>(p.pixels * p.columns);
  for (std::size_t g = 0; g < mean.size(); ++g)
    for (std::size_t i = 0; i < image_lanes; ++i) {
      variance[g][i] = count * (variance[g][i] + mean[g][i] * mean[g][i]);
      mean[g][i] *= count;
    }
  const double all = sum_over_ranks(ranks, p, mean, variance);
  if (all == 0) return 0;
  for (std::size_t g = 0; g < mean.size(); ++g)
    for (std::size_t i = 0; i < image_lanes; ++i) {
      mean[g][i] /= all;
      variance[g][i] = std::max(0.0, variance[g][i] / all - mean[g][i] * mean[g][i]);
    }
  return all;
}

// Calls first(group, a, b), then second(group, a, b, number of values) for every group. Between the two, with several
// ranks, to_all(a, b) of all groups returns the number of values of all ranks; without any there is no second pass.
template <class First, class ToAll, class Second>
void in_two_passes(const BatchNormalization& op, const Planes& p, const First& first, const ToAll& to_all,
                   const Second& second) {
  if (!op.ranks)
    return p.each_group([&](std::size_t g) {
      Totals a{}, b{};
      first(g, a, b);
      second(g, a, b, static_cast<double>(p.pixels * p.columns));
    });
  std::vector<Totals> a(p.groups), b(p.groups);
  p.each_group([&](std::size_t g) { first(g, a[g], b[g]); });
  const double count = to_all(a, b);
  if (count > 0) p.each_group([&](std::size_t g) { second(g, a[g], b[g], count); });
}

float mixed(double weight, float running, double fresh) {
  return static_cast<float>(weight * static_cast<double>(running) + (1 - weight) * fresh);
}

// Completes the normalisation of a group of channels and its running statistics.
void finish_statistics(const BatchNormalization& op, const NormalizationParameters& of, const Planes& p, std::size_t g,
                       const Totals& mean, const Totals& variance, const KeptStatistics& kept) {
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

// Between the plain and the blocked format.
void CpuImages::reorder(const ImageExtent& from, const ImageExtent& to, const float* x, float* y, bool accumulate) {
  ImageExtent in_blocks = from;
  in_blocks.format = Format::blocked;
  const Planes p(in_blocks, channel_block());
  const std::size_t plain_step = p.channels * p.pixels;
  const bool into_blocks = to.format == Format::blocked;
  parallel(p.columns * p.groups, 1, p.group_step, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t column = i / p.groups, g = i % p.groups, present = p.in_group(g);
      const std::size_t plain = column * plain_step + g * p.period * p.pixels, blocked = p.at(column, g);
      for (std::size_t pixel = 0; pixel < p.pixels; ++pixel) {
        const std::size_t line = blocked + pixel * p.period;
        for (std::size_t c = 0; c < present; ++c) {
          const std::size_t source = into_blocks ? plain + c * p.pixels + pixel : line + c,
                            target = into_blocks ? line + c : plain + c * p.pixels + pixel;
          y[target] = accumulate ? y[target] + x[source] : x[source];
        }
        if (into_blocks && !accumulate)
          for (std::size_t c = present; c < p.period; ++c) y[line + c] = 0;
      }
    }
  });
}

void CpuImages::normalize(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                          const float* added, float* y, float* work) {
  const Planes p(op.extent, channel_block());
  const KeptStatistics kept(work, p);
  if (p.columns == 0 && !op.ranks) return;
  const auto first = [&](std::size_t g, Totals& mean, Totals& variance) {
    if (op.weights && p.columns > 0) moments(images_, p, x, g, mean, variance);
  };
  const auto apply = [&](std::size_t g, const Totals& mean, const Totals& variance, double) {
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
  in_two_passes(
      op, p, first, [&](auto& mean, auto& variance) { return moments_of_all(*op.ranks, p, mean, variance); }, apply);
}

void CpuImages::normalize_gradient(const BatchNormalization& op, const NormalizationParameters& of, const float* x,
                                   const float* y, float* dy, const float* work, const NormalizationGradients& to) {
  const Planes p(op.extent, channel_block());
  const KeptStatistics kept(const_cast<float*>(work), p);
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
  in_two_passes(
      op, p, sum, [&](auto& sums, auto& products) { return sum_over_ranks(*op.ranks, p, sums, products); }, apply);
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

Response described(const ResponseNormalization& op, const Planes& p) {
  return {op.extent.channels,
          op.radius,
          op.extent.format == Format::blocked ? p.period : 0,
          static_cast<float>(op.bias),
          static_cast<float>(op.alpha),
          static_cast<float>(op.beta)};
}

// f(offset of the part, pixels, stride of channels or blocks) for parts of columns.
template <class F>
void each_part(const Response& r, const Planes& p, const F& f) {
  constexpr std::size_t unit = 64;
  const std::size_t parts = (p.pixels + unit - 1) / unit, width = std::max<std::size_t>(r.block, 1);
  parallel(p.columns * parts, 1, unit * p.channels * 8, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i % parts * unit;
      f(i / parts * p.column_step + first * width, std::min(unit, p.pixels - first), p.pixels * width);
    }
  });
}

}  // namespace

void CpuImages::respond(const ResponseNormalization& op, const float* x, float* y, float* work) {
  const Planes p(op.extent, channel_block());
  const Response r = described(op, p);
  each_part(r, p, [&](std::size_t at, std::size_t pixels, std::size_t step) {
    images_.respond(r, x + at, y + at, work + at, pixels, step);
  });
}

void CpuImages::respond_gradient(const ResponseNormalization& op, const float* x, const float* y, const float* dy,
                                 const float* work, float* dx, bool accumulate) {
  const Planes p(op.extent, channel_block());
  const Response r = described(op, p);
  each_part(r, p, [&](std::size_t at, std::size_t pixels, std::size_t step) {
    images_.respond_gradient(r, x + at, y + at, dy + at, work + at, dx + at, pixels, step, accumulate);
  });
}

}  // namespace tutti::cpu
