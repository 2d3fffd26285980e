// SPDX-License-Identifier: Apache-2.0
// channels.h -- how thread blocks walk over images channel by channel, and sums over the values of a channel. Sums are
// in double: partial sums in blocks, then the parts in order, so a shape gives the same bits every time.
#pragma once

#include <algorithm>

#include "backend/cuda/lanes.h"
#include "tutti/image_ops.h"

namespace tutti::cuda {

struct TwoSums {
  double first = 0, second = 0;
};

// The work of blocks. Plain images: a block takes a part of the columns of one channel, and neighbouring threads take
// neighbouring pixels. Channels last: a block takes some channels, `lanes` per thread, and a part of the rows (pixels
// of all columns); neighbouring threads take neighbouring channels.
struct Parts {
  std::size_t columns, channels, pixels;
  unsigned parts, width;  // width: threads side by side, a power of two
  unsigned groups;        // of channels
  bool last;

  explicit Parts(const ImageExtent& e, unsigned lanes = 1)
      : columns(e.columns), channels(e.channels), pixels(e.pixels), last(e.format == Format::blocked) {
    const std::size_t across = last ? channels / lanes : pixels, most = last ? 32 : threads_per_block;
    width = 1;
    while (width < across && width < most) width *= 2;
    groups = static_cast<unsigned>(last ? (across + width - 1) / width : channels);
    // Enough blocks for the device, enough work for each block.
    constexpr std::size_t wanted_blocks = 1024, least_values = 4096;
    const std::size_t values = last ? columns * pixels * width * lanes : columns * pixels;
    const std::size_t by_work = (values + least_values - 1) / least_values;
    const std::size_t by_device = (wanted_blocks + groups - 1) / groups;
    const std::size_t by_rows = last ? columns * pixels : columns;
    parts = static_cast<unsigned>(std::max<std::size_t>(1, std::min({by_work, by_device, by_rows})));
  }
  unsigned blocks() const { return groups * parts; }
};

// The rows and channels of a thread in an image with channels last.
template <unsigned V>
struct RowsOfThread {
  std::size_t channel, row, step, end;
  __device__ explicit RowsOfThread(const Parts& p) {
    const unsigned at_once = threads_per_block / p.width, part = blockIdx.x % p.parts;
    channel = (std::size_t{blockIdx.x / p.parts} * p.width + threadIdx.x % p.width) * V;
    row = part * at_once + threadIdx.x / p.width;
    step = std::size_t{p.parts} * at_once;
    end = channel < p.channels ? p.columns * p.pixels : 0;
  }
  // Calls use(first element) for each row.
  template <class Use>
  __device__ void each(const Parts& p, const Use& use) const {
#pragma unroll 4
    for (std::size_t r = row; r < end; r += step) use(r * p.channels + channel);
  }
};

// Writes the sums of the threads with the same channels, `stride` apart, to `to`.
template <unsigned V>
__device__ inline void fold_block(TwoSums (&mine)[V], unsigned stride, TwoSums* to, std::size_t to_step, bool writes) {
  __shared__ double first[V][threads_per_block], second[V][threads_per_block];
  const unsigned t = threadIdx.x;
  for (unsigned l = 0; l < V; ++l) first[l][t] = mine[l].first, second[l][t] = mine[l].second;
  __syncthreads();
  for (unsigned half = threads_per_block / 2; half >= stride; half /= 2) {
    if (t < half)
      for (unsigned l = 0; l < V; ++l) first[l][t] += first[l][t + half], second[l][t] += second[l][t + half];
    __syncthreads();
  }
  if (writes)
    for (unsigned l = 0; l < V; ++l) to[l * to_step] = {first[l][t], second[l][t]};
}

// of_channels(first channel) returns the work of a thread for V channels over a block's part of an image with channels
// last: add(sums, first element, read(first element)), `at_once` of them. The block's sums go to sums[channel * parts +
// part].
template <unsigned V, class OfChannels>
__device__ void sum_rows_of_part(const Parts& p, TwoSums* sums, const OfChannels& of_channels) {
  const RowsOfThread<V> mine(p);
  TwoSums of_thread[V];
  if (mine.end > 0) {
    const auto of = of_channels(mine.channel);
    const auto element = [&](std::size_t row) { return row * p.channels + mine.channel; };
    in_batches<of.at_once>(
        mine.row, mine.step, mine.end, [&](std::size_t row) { return of.read(element(row)); },
        [&](std::size_t row, const auto& values) { of.add(of_thread, element(row), values); });
  }
  fold_block(of_thread, p.width, sums + mine.channel * p.parts + blockIdx.x % p.parts, p.parts,
             threadIdx.x < p.width && mine.channel < p.channels);
}

// The same over a plain image, one channel at a time: the pixels of one column or, if these are few, of several
// columns.
template <class OfChannels>
__device__ void sum_planes_of_part(const Parts& p, TwoSums* sums, const OfChannels& of_channels) {
  const std::size_t channel = blockIdx.x / p.parts, part = blockIdx.x % p.parts;
  const unsigned across = threadIdx.x % p.width, down = threadIdx.x / p.width, rows = threads_per_block / p.width;
  const std::size_t first = part * rows + down, step = std::size_t{p.parts} * rows;
  const auto of = of_channels(channel);
  TwoSums mine[1];
  const auto plane = [&](std::size_t column) { return (column * p.channels + channel) * p.pixels; };
  const auto sum_up = [&](std::size_t i, std::size_t by, std::size_t end, const auto& element) {
    in_batches<of.at_once>(
        i, by, end, [&](std::size_t n) { return of.read(element(n)); },
        [&](std::size_t n, const auto& values) { of.add(mine, element(n), values); });
  };
  if (p.pixels > p.width) {
    for (std::size_t column = first; column < p.columns; column += step)
      sum_up(across, p.width, p.pixels, [&](std::size_t pixel) { return plane(column) + pixel; });
  } else if (across < p.pixels) {
    sum_up(first, step, p.columns, [&](std::size_t column) { return plane(column) + across; });
  }
  fold_block(mine, 1, sums + blockIdx.x, 0, threadIdx.x == 0);
}

template <bool Last, unsigned V, class OfChannels>
__device__ void sum_part(const Parts& p, TwoSums* sums, const OfChannels& of_channels) {
  if constexpr (Last)
    sum_rows_of_part<V>(p, sums, of_channels);
  else
    sum_planes_of_part(p, sums, of_channels);
}

// A warp adds the parts of a channel; every lane gets the sums.
__device__ inline TwoSums sum_of_parts(const TwoSums* sums, std::size_t channel, unsigned parts) {
  TwoSums all;
  for (unsigned i = threadIdx.x % 32; i < parts; i += 32)
    all.first += sums[channel * parts + i].first, all.second += sums[channel * parts + i].second;
  for (int by = 16; by > 0; by /= 2) {
    all.first += __shfl_xor_sync(0xffffffffu, all.first, by);
    all.second += __shfl_xor_sync(0xffffffffu, all.second, by);
  }
  return all;
}
__device__ inline std::size_t channel_of_warp() { return first_element() / 32; }
inline dim3 warps_for(std::size_t channels) {
  return dim3(static_cast<unsigned>((channels * 32 + threads_per_block - 1) / threads_per_block));
}

}  // namespace tutti::cuda
