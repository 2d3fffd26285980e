// SPDX-License-Identifier: Apache-2.0
// groups.h -- groups entries that add to the same place, on the host, so that one thread sums each place in the order
// of the entries. Needs no atomics, and all runs give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::cuda {

struct Groups {
  std::vector<std::int32_t> place;  // of each group, ascending
  std::vector<std::int64_t> begin;  // of each group in `entries`, plus the end
  std::vector<std::int32_t> entries;

  // Entries with a negative place are skipped.
  void assign(std::span<const std::int32_t> places) {
    sorted_.clear(), place.clear(), begin.clear(), entries.clear();
    for (std::size_t i = 0; i < places.size(); ++i)
      if (places[i] >= 0) sorted_.push_back(static_cast<std::uint64_t>(places[i]) << 32 | i);
    std::sort(sorted_.begin(), sorted_.end());
    for (const std::uint64_t both : sorted_) {
      const auto to = static_cast<std::int32_t>(both >> 32);
      if (place.empty() || place.back() != to) {
        place.push_back(to);
        begin.push_back(static_cast<std::int64_t>(entries.size()));
      }
      entries.push_back(static_cast<std::int32_t>(both & 0xffffffffu));
    }
    begin.push_back(static_cast<std::int64_t>(entries.size()));
  }

 private:
  std::vector<std::uint64_t> sorted_;  // kept to reuse its memory
};

}  // namespace tutti::cuda
