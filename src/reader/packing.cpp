// SPDX-License-Identifier: Apache-2.0
// First-fit packing; the tree finds the first row with capacity left in log time, so that large minibatches stay cheap.
#include "reader/packing.h"

#include <algorithm>
#include <bit>

namespace tutti::reader {

std::int64_t Packing::columns(std::span<const std::int64_t> lengths) {
  if (lengths.empty()) return 0;
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  if (*shortest == *longest) return *longest * static_cast<std::int64_t>(lengths.size());

  // Rows not opened yet are empty, so "first row with capacity left" also means "open the next one".
  const std::size_t leaves = std::bit_ceil(lengths.size());
  capacity_.assign(2 * leaves, *longest);
  std::size_t rows = 0;
  for (const std::int64_t length : lengths) {
    std::size_t at = 1;
    while (at < leaves) at = capacity_[2 * at] >= length ? 2 * at : 2 * at + 1;
    rows = std::max(rows, at - leaves + 1);
    capacity_[at] -= length;
    for (at /= 2; at > 0; at /= 2) capacity_[at] = std::max(capacity_[2 * at], capacity_[2 * at + 1]);
  }
  return static_cast<std::int64_t>(rows) * *longest;
}

}  // namespace tutti::reader
