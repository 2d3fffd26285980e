// SPDX-License-Identifier: Apache-2.0
// mlp_parameters.h -- the parameters of a network 784-3x2048-10 without the network, and numbers that benchmarks of
// exchanges have in common.
#pragma once

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/gradient_exchange.h"
#include "tutti/parameters.h"

namespace tutti {

using Clock = std::chrono::steady_clock;
inline double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

inline Parameters mlp_parameters(std::size_t columns_per_chunk) {
  Parameters p;
  std::size_t size = 0;
  for (const auto& [rows, columns] : std::vector<std::pair<std::size_t, std::size_t>>{
           {10, 1}, {10, 2048}, {2048, 1}, {2048, 2048}, {2048, 1}, {2048, 2048}, {2048, 1}, {2048, 784}}) {
    Slice slice;
    slice.offset = size, slice.rows = rows, slice.columns = columns;
    for (std::size_t c = 0; c < columns; c += columns_per_chunk)
      p.chunks.push_back({p.slices.size(), c, std::min(columns_per_chunk, columns - c)});
    size += (rows * columns + 15) / 16 * 16;
    p.slices.push_back(slice);
  }
  p.weights = FloatBuffer(size);
  p.gradients = FloatBuffer(size);
  return p;
}

class IgnoreGradients : public ReducedGradientSink {
 public:
  void on_reduced(std::size_t, std::int64_t) override {}
};

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

inline double largest_of_ranks(Communicator& comm, double mine) {
  std::vector<double> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return *std::max_element(all.begin(), all.end());
}

}  // namespace tutti
