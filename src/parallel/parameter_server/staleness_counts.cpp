// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/staleness_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

void StalenessCounts::add(std::int64_t staleness) {
  ++bins[std::min(static_cast<std::size_t>(staleness), kBins - 1)];
  ++pushes;
  sum += staleness;
  largest = std::max(largest, staleness);
}

StalenessCounts& StalenessCounts::operator+=(const StalenessCounts& o) {
  for (std::size_t i = 0; i < kBins; ++i) bins[i] += o.bins[i];
  pushes += o.pushes, sum += o.sum, largest = std::max(largest, o.largest);
  return *this;
}

void StalenessCounts::add_up(Communicator& comm) {
  comm.all_reduce_sum(std::span(bins));
  comm.all_reduce_sum(std::span(&pushes, 1));
  comm.all_reduce_sum(std::span(&sum, 1));
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span(&largest, 1)), std::as_writable_bytes(std::span(all)));
  largest = *std::max_element(all.begin(), all.end());
}

std::string StalenessCounts::text() const {
  std::string text =
      fmt::format("mean {:.2f}, max {}; {} pushes",
                  static_cast<double>(sum) / std::max<double>(1, static_cast<double>(pushes)), largest, pushes);
  const char* sign = ": ";
  for (std::size_t i = 0; i < kBins; ++i)
    if (bins[i] > 0)
      text += fmt::format("{}{}{}: {}", std::exchange(sign, ", "), i, i + 1 == kBins ? "+" : "", bins[i]);
  return text;
}

}  // namespace tutti
