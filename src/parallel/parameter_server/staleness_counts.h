// SPDX-License-Identifier: Apache-2.0
// staleness_counts.h -- a histogram of the staleness of pushes to parameter servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti {

// One count for each number of pushes of other workers that a push missed; the last counts all above.
struct StalenessCounts {
  static constexpr std::size_t kBins = 64;
  std::vector<std::int64_t> bins = std::vector<std::int64_t>(kBins);
  std::int64_t pushes = 0, sum = 0, largest = 0;
  void add(std::int64_t staleness);
  StalenessCounts& operator+=(const StalenessCounts&);
  void add_up(Communicator&);  // collective
  std::string text() const;    // "mean 1.50, max 3; 12 pushes: 0: 2, 1: 4, ..."
};

}  // namespace tutti
