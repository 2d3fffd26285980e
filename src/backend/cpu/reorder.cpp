// SPDX-License-Identifier: Apache-2.0
// Between the plain and the blocked format.
#include "backend/cpu/images.h"
#include "backend/cpu/planes.h"

namespace tutti::cpu {

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

}  // namespace tutti::cpu
