// SPDX-License-Identifier: Apache-2.0
// planes.h -- divides columns of images into groups of channels for the loops of image_kernels.h: one run of floats per
// column and group, in which channels repeat with a period.
#pragma once

#include <algorithm>
#include <array>

#include "backend/cpu/image_kernels.h"
#include "backend/cpu/parallel.h"
#include "tutti/image_ops.h"

namespace tutti::cpu {

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

}  // namespace tutti::cpu
