// SPDX-License-Identifier: Apache-2.0
// Largest buffer first, each at the lowest offset that no buffer alive at the same time uses.
#include "graph/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tutti/error.h"

namespace tutti::graph {
namespace {

// Sums of sizes must not wrap around, because then little memory would seem to be needed.
void check_sum(const std::vector<Buffer>& buffers, std::size_t columns) {
  double all = 0;
  for (const Buffer& b : buffers)
    all += static_cast<double>(b.per_column) * static_cast<double>(columns) + static_cast<double>(b.fixed) + 16;
  if (all > static_cast<double>(1ULL << 60))
    throw Error(fmt::format("out of memory: {:.3g} bytes for the values of the network", all * sizeof(float)));
}

}  // namespace

std::size_t place(std::vector<Buffer>& buffers, std::size_t columns, bool reuse) {
  check_sum(buffers, columns);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].size(columns) > buffers[b].size(columns); });
  std::vector<std::size_t> placed;  // sorted by offset
  std::size_t total = 0;
  for (const auto index : order) {
    Buffer& buffer = buffers[index];
    const std::size_t size = buffer.size(columns);
    std::size_t at = 0;
    for (const auto other : placed) {
      const Buffer& o = buffers[other];
      const bool together = !reuse || (o.begin <= buffer.end && buffer.begin <= o.end);
      if (!together || o.offset + o.size(columns) <= at) continue;
      if (o.offset >= at + size) break;
      at = o.offset + o.size(columns);
    }
    buffer.offset = at;
    total = std::max(total, at + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](std::size_t a, std::size_t b) { return buffers[a].offset < buffers[b].offset; }),
                  index);
  }
  return total;
}

}  // namespace tutti::graph
